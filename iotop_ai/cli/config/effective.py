"""The effective Settings and their origins: a flag overrides the environment, which overrides the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iotop_ai.cli.config.common import DEFAULT, read_only_for_other_machine
from iotop_ai.cli.config.file import ConfigFile, read_config
from iotop_ai.cli.config.table import SETTINGS, Setting
from iotop_ai.collectors.state.folder import CONFIG_VARIABLE, config_path
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.settings import Settings


class Effective(NamedTuple):
    """The settings in effect, and the origin of each.

    origins: the origin by the setting's name: "flag", "flag --path", "environment VARIABLE", "FILE:LINE", "FILE" or
        "default"
    """

    settings: Settings
    origins: Mapping[str, str]


def effective_settings(flags: Mapping[str, object], environ: Mapping[str, str], config: str | None = None) -> Effective:
    """Return the settings that result from the flags, the environment and the settings file.

    Raises UsageError for the first invalid value, and for a file that cannot be read or is not trusted.

    flags: the values of the flags on the command line, by the field of Settings. config: the file that --config names.
    """
    path = config_path(environ, config)
    try:
        file = read_config(path, required=bool(config or environ.get(CONFIG_VARIABLE)))
    except TimeoutError as error:  # the monitor starts even if the filesystem of the home folder does not answer
        from iotop_ai.cli.stderr import print_notice  # rarely needed, so not imported at start-up

        print_notice(f"settings: {clean(str(path))}: {error.strerror}; using the defaults, read-only")
        file = ConfigFile(path, {"readonly": True}, {}, ())  # the file may set readonly, and an action cannot be undone
    if file is not None and file.problems:
        raise UsageError(file.describe(file.problems[0]))
    return _combine(flags, environ, file)


def _combine(flags: Mapping[str, object], environ: Mapping[str, str], file: ConfigFile | None) -> Effective:
    values = dict(flags)
    origins: dict[str, str] = {}
    in_file: Mapping[str, object] = {} if file is None else file.values
    for setting in SETTINGS:
        origin = DEFAULT
        if setting.field in flags:
            origin = "flag"
            if setting.name == "smart_types" and setting.name in in_file:
                # The flag sets the types of individual disks. The file's other disks keep their types.
                values[setting.field] = tuple((dict(in_file[setting.name]) | dict(flags[setting.field])).items())  # type: ignore[call-overload]
        elif setting.name == "devices" and "path" in flags:
            origin = "flag --path"
        elif setting.variable and setting.variable in environ:
            values[setting.field] = _from_environment(setting, environ)
            origin = f"environment {setting.variable}"
        elif setting.name == "theme" and "NO_COLOR" in environ and setting.name in in_file:
            origin = "environment NO_COLOR"
        elif file is not None and setting.name in in_file:
            values[setting.field] = in_file[setting.name]
            line = file.lines.get(setting.name)
            origin = clean(f"{file.path}:{line}" if line is not None else str(file.path))
        origins[setting.name] = origin
    set_fields = frozenset(setting.field for setting in SETTINGS if origins[setting.name] != DEFAULT)
    settings = read_only_for_other_machine(_with_values(Settings(), values))._replace(chosen=set_fields)
    if settings.readonly and not values.get("readonly"):
        origins["readonly"] = origins["sysfs" if settings.procfs.rstrip("/") in ("", "/proc") else "procfs"]
    return Effective(settings, origins)


def _from_environment(setting: Setting, environ: Mapping[str, str]) -> object:
    try:
        return setting.read(environ[setting.variable])
    except UsageError as error:
        raise UsageError(f"{setting.variable}: {error}") from None


def _with_values(settings: Settings, values: Mapping[str, object]) -> Settings:
    """Return the Settings with new values.

    values: the new values by name: a field of Settings, or "mark_" and a field of Marks ("mark_await" for await_ms).
    """
    marks = {name.removeprefix("mark_"): value for name, value in values.items() if name.startswith("mark_")}
    if "await" in marks:
        marks["await_ms"] = marks.pop("await")
    rest = {name: value for name, value in values.items() if not name.startswith("mark_")}
    return settings._replace(marks=settings.marks._replace(**marks), **rest)  # type: ignore[arg-type]
