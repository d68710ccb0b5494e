"""Configuration: the settings of each command, and how `key=value` words become typed settings."""
