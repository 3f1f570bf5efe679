"""Small programs that really cause a problem, and the score of each verdict: ``python -m tests.scenarios.run``."""
