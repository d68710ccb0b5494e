"""Environments: many worlds of many tasks behind one `step`."""
