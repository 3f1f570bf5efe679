"""Start and end of a command: logging, crash reports, the first frame."""
