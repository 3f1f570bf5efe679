"""Training stacks from the package registry, used as their documentation shows and with a known truth: ``run.py``."""
