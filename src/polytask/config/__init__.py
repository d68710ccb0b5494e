"""Configuration: what a command can be told, and how words become typed settings."""
