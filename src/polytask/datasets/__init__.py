"""Data sets: collect episodes, read them back, and export them."""
