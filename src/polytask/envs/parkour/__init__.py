"""Parkour: the Go1 on twenty kinds of terrain, after MTBench's second domain.

Joshi et al., "Benchmarking Massively Parallelized Multi-Task Reinforcement Learning for Robotics Tasks", RLC 2025
(arXiv 2507.23172). `docs/parkour.md` lists the differences from it.
"""
