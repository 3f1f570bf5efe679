"""The Settings of this run. The table of settings is loaded only if a file or the environment may set something."""

from __future__ import annotations

import os
from collections.abc import Mapping

from iotop_ai.cli.config.common import PREFIX, read_only_for_other_machine
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import settings_file
from iotop_ai.model.settings import Settings


def settings_now(flags: Mapping[str, object], environ: Mapping[str, str], config: str | None = None) -> Settings:
    """Return the Settings that result from flags, environment and file. Arguments: as in ``effective_settings``."""
    if config or any(name.startswith(PREFIX) for name in environ) or _may_exist(settings_file(environ)):
        from iotop_ai.cli.config.effective import effective_settings

        return effective_settings(flags, environ, config).settings
    return read_only_for_other_machine(Settings()._replace(**flags, chosen=frozenset(flags)))  # type: ignore[arg-type]


def _may_exist(path: str) -> bool:
    """Whether a settings file may exist.

    True if the filesystem does not answer, so that the attempt to read the file reports the problem.
    """
    try:
        return call_with_timeout(HOME_TIMEOUT_S, path, lambda: os.path.lexists(path))
    except TimeoutError:
        return True
