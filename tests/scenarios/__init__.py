"""Small programs that make a cause for real, and what the verdict says about each: ``python -m tests.scenarios.run``."""
