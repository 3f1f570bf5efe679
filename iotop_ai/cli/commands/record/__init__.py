"""Record the machine, for weeks or while a command runs."""
