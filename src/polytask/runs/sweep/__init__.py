"""Sweeps: a grid of settings, each trained with several seeds, several runs at once.

`grid` turns words into settings, `plan` gives every run its folder and finds what is left to do, `pool` starts the runs
through a launcher (`local`, `clusters`), and `command` is `polytask sweep`.
"""
