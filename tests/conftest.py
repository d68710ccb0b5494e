"""What all tests share.

One torch thread: the tests' operations are small, and a thread pool spins beside whatever else runs. Without a GPU,
Triton interprets its kernels; it asks for that when it is first imported.
"""

import os

import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
