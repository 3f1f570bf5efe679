"""The Settings of this run and where each comes from: a flag goes before the environment, that before the file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from iotop_ai.collectors.state_folder import CONFIG_VARIABLE, config_path, settings_file
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.settings import Settings
from iotop_ai.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from iotop_ai.cli.config_file import Said

DEFAULT = "default"
PREFIX = "IOTOP_AI_"
"""How the variables of the environment begin that hold a setting."""


class Effective(NamedTuple):
    """settings: what holds. origins: by a setting's name, "flag", "environment VARIABLE", "FILE:LINE" or "default"."""

    settings: Settings
    origins: Mapping[str, str]
    said: Said | None


def settings_now(flags: Mapping[str, object], environ: Mapping[str, str], config: str | None = None) -> Settings:
    """The Settings alone. The table of settings is loaded only where a file or the environment says something."""
    said = config or any(name.startswith(PREFIX) for name in environ) or os.path.lexists(settings_file(environ))
    if said:
        return effective(flags, environ, config).settings
    return Settings()._replace(**flags, chosen=frozenset(flags))  # type: ignore[arg-type]


def effective(flags: Mapping[str, object], environ: Mapping[str, str], config: str | None = None) -> Effective:
    """Put together what the flags, the environment and the file say.

    flags: by the field of Settings, only those that were given. config: the file that was named. Raises UsageError
    for the first thing that cannot be meant.
    """
    from iotop_ai.cli.config_file import read_config

    named = config or environ.get(CONFIG_VARIABLE)
    said = read_config(config_path(environ, config), asked=bool(named))
    if said is not None and said.problems:
        raise UsageError(said.where(said.problems[0]))
    return merged(flags, environ, said)


def merged(flags: Mapping[str, object], environ: Mapping[str, str], said: Said | None) -> Effective:
    """As ``effective``, of a file that has been read; what the file says wrongly is as if it were not said."""
    from iotop_ai.cli.settings_table import SETTINGS, applied

    values = dict(flags)
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        origin = DEFAULT
        in_file = said is not None and setting.name in said.values
        if setting.field in flags:
            origin = "flag"
            if setting.name == "smart_types" and in_file and said is not None:
                values[setting.field] = tuple((dict(said.values[setting.name]) | dict(flags[setting.field])).items())  # type: ignore[call-overload]
        elif setting.variable and setting.variable in environ:
            values[setting.field] = _of_environment(setting.variable, setting.read, environ)
            origin = f"environment {setting.variable}"
        elif setting.name == "theme" and "NO_COLOR" in environ and in_file:
            origin = "environment NO_COLOR"
        elif setting.name == "devices" and "path" in flags:
            origin = "flag --path"
        elif in_file and said is not None:
            values[setting.field] = said.values[setting.name]
            line = said.lines.get(setting.name)
            origin = clean(f"{said.path}:{line}" if line is not None else str(said.path))
        origins[setting.name] = origin
    chosen = frozenset(setting.field for setting in SETTINGS if origins[setting.name] != DEFAULT)
    settings = applied(Settings(), values)._replace(chosen=chosen)
    return Effective(settings, origins, said)


def _of_environment(variable: str, read: object, environ: Mapping[str, str]) -> object:
    try:
        return read(environ[variable])  # type: ignore[operator]
    except UsageError as error:
        raise UsageError(f"{variable}: {error}") from None
