"""The code that runs inside a training process. It needs only Python 3.8; each callback also needs its framework."""
