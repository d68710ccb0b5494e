"""Tools around training: benchmarks, verification, videos and the task gallery."""
