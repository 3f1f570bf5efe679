"""The only code that changes the machine: each action is asked for, confirmed and written to the audit log."""
