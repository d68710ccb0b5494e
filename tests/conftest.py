"""One torch thread: the tests' operations are small, and a thread pool spins beside whatever else runs."""

import torch

torch.set_num_threads(1)
