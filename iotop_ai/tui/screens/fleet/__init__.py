"""The screens of ``iotop-ai fleet``."""
