"""The command that records the machine, for weeks or while a command runs."""
