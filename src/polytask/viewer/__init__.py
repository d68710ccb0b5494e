"""`polytask play`: watch a policy in many worlds, in a web browser."""
