"""Environments that step many worlds of many tasks at once."""
