"""Start-up and the end of a command: logging, crash reports, and the first frame."""
