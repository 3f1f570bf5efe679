"""Training stacks of the package registry as their documentation shows them, with a known truth: ``run.py``."""
