"""The checks before a run. storage: what a disk or a folder gives a training job."""
