"""Reads the settings of a PyTorch DataLoader, which a monitor names in its advice."""

from __future__ import annotations

from typing import Any

SETTINGS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")


def dataloader_settings(loader: Any) -> dict[str, Any] | None:
    """Return the settings of a DataLoader by name; None for any other object.

    The class is found by its name, because this module must not import torch.
    """
    for base in type(loader).__mro__:
        if base.__name__ == "DataLoader" and base.__module__.startswith("torch.utils.data"):
            return {name: getattr(loader, name, None) for name in SETTINGS}
    return None
