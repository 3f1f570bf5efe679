"""Training stacks from the package registry, used as their documentation shows. The truth of each run is known."""
