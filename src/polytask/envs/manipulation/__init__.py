"""Manipulation: Meta-World's fifty tasks for a robot arm."""
