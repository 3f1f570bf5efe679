"""A load that needs only the driver: it copies from pinned host memory to the GPU and prints the amount.

``python -m tests.bench.gpu_copy SECONDS`` prints one line per second: the monotonic time in ns and the bytes so far.
"""

from __future__ import annotations

import ctypes
import sys
import time

BYTES = 64 << 20


def copy(seconds: float) -> None:
    """Copy on the first GPU for this many seconds. Ends the process with exit code 2 if CUDA does not answer."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"unknown: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    device, context = ctypes.c_int(), ctypes.c_void_p()
    host_memory, gpu_memory = ctypes.c_void_p(), ctypes.c_uint64()

    def call(name: str, *arguments: object) -> None:
        result = getattr(cuda, name)(*arguments)
        if result:
            print(f"unknown: {name} gave {result}", file=sys.stderr)
            raise SystemExit(2)

    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAllocHost_v2", ctypes.byref(host_memory), ctypes.c_size_t(BYTES))
    call("cuMemAlloc_v2", ctypes.byref(gpu_memory), ctypes.c_size_t(BYTES))
    done, start_ns = 0, time.monotonic_ns()
    last_report = start_ns
    while (now := time.monotonic_ns()) < start_ns + seconds * 1e9:
        call("cuMemcpyHtoD_v2", gpu_memory, host_memory, ctypes.c_size_t(BYTES))
        done += BYTES
        if now - last_report >= 1e9:
            last_report = now
            print(time.monotonic_ns(), done, flush=True)


if __name__ == "__main__":
    copy(float(sys.argv[1]))
