"""iotop-ai: why is my training slow? The public Python API, loaded lazily.

Importing it loads no library. What a training process uses (all but ``load``) is standard library only and runs on
Python 3.8; the monitor itself, a process of its own, needs Python 3.11. See docs/api.md.
"""

__version__ = "0.1.0"

_PLACES = {
    "Monitor": "iotop_ai.train.monitor",
    "monitored": "iotop_ai.train.monitor",
    "watch": "iotop_ai.train.steps",
    "step": "iotop_ai.train.steps",
    "mark": "iotop_ai.train.steps",
    "monitor_disk": "iotop_ai.train.disk_table",
    "TrainingLoop": "iotop_ai.train.callbacks.torch",
    "LightningCallback": "iotop_ai.train.callbacks.lightning",
    "TransformersCallback": "iotop_ai.train.callbacks.transformers",
    "KerasCallback": "iotop_ai.train.callbacks.keras",
    "tf_keras_callback": "iotop_ai.train.callbacks.keras",
    "load_ipython_extension": "iotop_ai.train.notebook",
    "load": "iotop_ai.export.tables.recording",
}
"""Where each public name is defined."""
__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> object:
    """A public name, imported when it is first used."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(place), name)
    globals()[name] = found
    return found


def __dir__() -> "list[str]":
    """All public names, loaded or not."""
    return sorted({*globals(), *_PLACES})
