"""Runs: train, resume, evaluate and compare."""
