"""Training stacks from the package registry, used as their documentation shows; what is true of each run is known."""
