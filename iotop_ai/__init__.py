"""iotop-ai: why is my training slow? This is the public Python API; each name is loaded when it is first used.

``import iotop_ai`` imports no framework. The parts that run in a training process (all but ``load``) need only the
standard library and Python 3.8. The monitor runs in a separate process and needs Python 3.11. See docs/api.md.
"""

import sys

__version__ = "0.1.0"

_MODULES = {
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
"""The module that defines each public name."""
_FRAMEWORKS = {
    "LightningCallback": ("lightning", "pytorch_lightning"),
    "TransformersCallback": ("transformers",),
    "KerasCallback": ("keras", "tensorflow"),
    "tf_keras_callback": ("tensorflow",),
}
"""The packages for each callback; any one of them is enough."""
_NEEDS_NEWER_PYTHON = {} if sys.version_info >= (3, 11) else {"load": "Python 3.11"}
"""The public names for which this Python is too old, each with the version that it needs."""
__all__ = ["__version__", *(name for name in _MODULES if name not in (*_FRAMEWORKS, *_NEEDS_NEWER_PYTHON))]


def _why_unusable(name: str) -> str:
    """Return the reason why this Python cannot use a public name; "" if no reason is known."""
    from importlib.util import find_spec

    packages = _FRAMEWORKS.get(name, ())
    if packages and not any(package in sys.modules or find_spec(package) for package in packages):
        return f"needs {packages[0]}: pip install {packages[0]}"
    needed = _NEEDS_NEWER_PYTHON.get(name)
    return f"needs {needed}; `iotop-ai export` writes a recording's tables for any Python" if needed else ""


def __getattr__(name: str) -> object:
    """Return a public name. Its module is imported when the name is first used."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    why = _why_unusable(name)
    if why:
        raise ImportError(f"iotop_ai.{name} {why}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    """Return the names of this module and all public names that this Python can use, loaded or not."""
    return sorted({*globals(), *(name for name in _MODULES if not _why_unusable(name))})
