"""The commands ``report`` and ``compare``, which describe recorded runs."""
