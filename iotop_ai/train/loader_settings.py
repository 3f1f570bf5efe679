"""Reads the settings of a PyTorch DataLoader, which a monitor names in its advice."""

from __future__ import annotations

from typing import Any

SETTINGS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")


def dataloader_settings(loader: Any) -> dict[str, Any] | None:
    """Return the settings of a DataLoader by name; None for any other object.

    The class is found by its name, because this module must not import torch. ``prepare()`` of Accelerate 1.x puts the
    DataLoader into another object, as its ``base_dataloader`` (accelerate/data_loader.py, class DataLoaderAdapter).
    """
    inner = getattr(loader, "base_dataloader", None)
    for one in (loader, inner):
        for base in type(one).__mro__:
            if base.__name__ == "DataLoader" and base.__module__.startswith("torch.utils.data"):
                return {name: getattr(one, name, None) for name in SETTINGS}
    return None
