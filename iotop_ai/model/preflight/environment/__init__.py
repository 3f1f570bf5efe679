"""Facts about the environment that a training starts in, and what is judged of them."""
