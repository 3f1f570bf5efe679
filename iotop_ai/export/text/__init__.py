"""Plain text for terminals and pipes."""
