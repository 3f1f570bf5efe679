"""A libnvidia-ml.so.1 that is built here, so that the real pynvml runs on a machine with any GPUs or none."""

from tests.rigs.nvml.c_library import Gpu, build, machine, why_no_library

__all__ = ["Gpu", "build", "machine", "why_no_library"]
