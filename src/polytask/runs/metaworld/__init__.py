"""Play a policy in the original Meta-World, which runs in processes of another interpreter."""
