"""Small programs that make a cause for real, and what is said about each: ``python -m tests.scenarios.run``."""
