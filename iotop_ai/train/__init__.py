"""The code that runs inside a training process. It uses only the standard library and Python 3.8."""
