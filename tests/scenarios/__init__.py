"""Small programs that make a cause for real, and the score of each verdict: ``python -m tests.scenarios.run``."""
