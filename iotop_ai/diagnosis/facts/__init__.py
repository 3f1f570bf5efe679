"""What the rules ask of a window of Samples."""
