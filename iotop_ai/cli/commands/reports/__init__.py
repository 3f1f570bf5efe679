"""``report`` and ``compare``: what recorded runs tell."""
