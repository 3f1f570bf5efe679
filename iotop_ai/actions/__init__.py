"""The only code that changes the machine; every action goes into the audit log."""
