"""Ways to run the roles: `local` in one process, `ray` in many processes at once."""
