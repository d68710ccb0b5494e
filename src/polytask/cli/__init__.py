"""The command line: `polytask <command> [key=value ...]`."""
