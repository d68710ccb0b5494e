"""Settings of MT-Opt."""
