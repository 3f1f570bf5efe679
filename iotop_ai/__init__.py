"""iotop-ai: why is my training slow? The public Python API, loaded lazily."""

__version__ = "0.1.0"
