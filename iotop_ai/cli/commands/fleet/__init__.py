"""``iotop-ai fleet``: its command, flags and screen."""
