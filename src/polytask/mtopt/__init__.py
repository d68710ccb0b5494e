"""MT-Opt: many skills from camera images, success examples and shared data."""
