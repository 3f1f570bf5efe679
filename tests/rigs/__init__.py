"""Real machinery for tests: slow disks, a terminal."""
