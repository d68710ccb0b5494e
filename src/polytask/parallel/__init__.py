"""Data-parallel training: the processes that torchrun starts, and which worlds and rows each of them works on."""
