"""Ways to run the roles: `local` in one process, `ray` side by side."""
