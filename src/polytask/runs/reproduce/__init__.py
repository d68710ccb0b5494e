"""Published tables and figures, each run by one command: `tables/` holds them as data, `command` runs them."""
