"""Trained policies apart from the algorithms that trained them: use, save, load and export them without a simulator."""
