"""What a line of a recording is."""
