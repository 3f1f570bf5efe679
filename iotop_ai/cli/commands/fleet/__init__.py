"""``iotop-ai fleet``."""
