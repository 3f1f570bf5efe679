"""The flags and the environment of the command that runs a browser's session."""

from __future__ import annotations

import pytest

from iotop_ai.cli.commands.web.command import command, environment
from iotop_ai.cli.main import build_parser
from iotop_ai.cli.options.common import settings_of


@pytest.mark.parametrize(
    ("setting", "flags", "smart"),
    [("false", ["--smart"], True), ("true", ["--no-smart"], False), ("false", [], False), ("true", [], True)],
)
def test_a_flag_about_smart_overrides_the_settings_in_a_session(
    setting: str, flags: list[str], smart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOP_AI_SMART", setting)
    args = build_parser(["web", *flags]).parse_args(["web", *flags])
    words = command(settings_of(args), args)[5:]
    assert settings_of(build_parser(words).parse_args(words)).smart is smart


def test_the_terminal_of_the_server_is_not_the_one_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TMUX", "/tmp/tmux-0/default,1,0"), ("TMUX_PANE", "%0"), ("TERM", "linux"), ("LANG", "C")):
        monkeypatch.setenv(name, value)
    session = environment()
    assert (session["TERM"], session["LANG"]) == ("xterm-256color", "C")
    assert not {"TMUX", "TMUX_PANE"} & session.keys()
