"""What runs inside a training process: standard library only, Python 3.8."""
