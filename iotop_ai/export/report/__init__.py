"""What happened in a recorded run, as one record, and its writers."""
