"""The only code that changes the machine. Every action is written to the audit log."""
