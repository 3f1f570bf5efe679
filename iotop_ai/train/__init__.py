"""The code that runs inside a training process. It needs only Python 3.8, callbacks also their framework."""
