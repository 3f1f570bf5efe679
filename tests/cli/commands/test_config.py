"""The settings file: its content, its permitted writers, and the origin of each value."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from iotop_ai.cli.commands import config
from iotop_ai.cli.config.effective import effective_settings
from iotop_ai.cli.config.file import key_lines, parse_config, read_config
from iotop_ai.cli.config.table import BY_NAME, SETTINGS
from iotop_ai.cli.main import main
from iotop_ai.collectors.state.folder import config_path
from iotop_ai.model.errors import UsageError
from iotop_ai.model.settings import Marks, Settings
from tests import config_doc


@pytest.fixture
def tmp_path(own_folder: Path) -> Path:
    """A folder in which root trusts a settings file."""
    return own_folder


FULL = """\
# everything
interval = "500ms"
devices = ["sda", "md0"]
theme = "cvd"
ascii = true
mouse = false
readonly = true
cmdline = "redacted"
sort = "cpu"
reverse = true
only_active = true
hide = ["system"]
hide_columns = ["rss"]
tree = true
remember = false
exact = true
units = 'decimal'
procfs = '/host/proc'
sysfs = '/host/sys'
smart = false
smartctl = "/opt/smartctl"
smart_interval = "1m"

[marks]
io_wait = 30
await = 20
util = 90

[smart_types]
sda = "megaraid,3"

[keys]
"sort.next" = [">", "F11"]
time.mark = "Ctrl+X"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "iotop-ai" / "config.toml"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def settings_from(
    path: Path, text: str, flags: dict[str, object] | None = None, **environ: str
) -> tuple[Settings, dict[str, str]]:
    write(path, text)
    found = effective_settings(flags or {}, {"XDG_CONFIG_HOME": str(path.parent.parent), **environ})
    return found.settings, dict(found.origins)


def test_every_setting_of_the_file_is_read(path: Path) -> None:
    settings, origins = settings_from(path, FULL)
    assert settings._replace(chosen=frozenset()) == Settings(
        interval_s=0.5,
        devices=("sda", "md0"),
        theme="cvd",
        ascii_only=True,
        mouse=False,
        readonly=True,
        cmdline="redacted",
        sort="cpu",
        reverse=True,
        only_active=True,
        hidden=("system",),
        no_columns=("rss",),
        tree=True,
        remember=False,
        exact=True,
        units="decimal",
        procfs="/host/proc",
        sysfs="/host/sys",
        smart=False,
        smartctl="/opt/smartctl",
        smart_interval_s=60.0,
        marks=Marks(30.0, 20.0, 90.0),
        smart_types=(("sda", "megaraid,3"),),
        keymap=(("sort.next", ("greater_than_sign", "f11")), ("time.mark", ("ctrl+x",))),
    )
    assert origins["interval"] == f"{path}:2"
    assert origins["marks.util"] == f"{path}:27"
    assert set(origins) == set(BY_NAME)
    assert settings.chosen == {setting.field for setting in SETTINGS}


def test_flags_override_the_environment_which_overrides_the_file(path: Path) -> None:
    text = "interval = 2\ntheme = 'light'\nreadonly = true\n"
    settings, origins = settings_from(path, text, {"interval_s": 5.0}, IOTOP_AI_INTERVAL="3", IOTOP_AI_READONLY="0")
    assert (settings.interval_s, settings.readonly, settings.theme) == (5.0, False, "light")
    assert origins["interval"] == "flag"
    assert origins["readonly"] == "environment IOTOP_AI_READONLY"
    assert origins["theme"] == f"{path}:2"
    assert origins["mouse"] == "default"
    assert settings.chosen == {"interval_s", "readonly", "theme"}


def test_the_environment_applies_without_a_file(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "IOTOP_AI_DEVICES": "sda,sdb", "IOTOP_AI_MARKS_AWAIT": "5"}
    found = effective_settings({}, environ)
    assert found.settings.devices == ("sda", "sdb")
    assert found.settings.marks.await_ms == 5.0
    with pytest.raises(UsageError, match="IOTOP_AI_INTERVAL: '0' is outside"):
        effective_settings({}, environ | {"IOTOP_AI_INTERVAL": "0"})


def test_procfs_or_sysfs_of_another_machine_makes_the_program_read_only(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    found = effective_settings({"procfs": "/proc/"}, {**home, "IOTOP_AI_SYSFS": "/host/sys"})
    assert (found.settings.readonly, found.origins["readonly"]) == (True, "environment IOTOP_AI_SYSFS")
    found = effective_settings({"procfs": "/host/proc"}, {**home, "IOTOP_AI_SYSFS": "/sys"})
    assert (found.settings.readonly, found.origins["readonly"]) == (True, "flag")


def test_the_variable_no_color_overrides_the_theme_of_the_file(path: Path) -> None:
    assert settings_from(path, "theme = 'light'", NO_COLOR="1")[0].theme == ""
    assert settings_from(path, "theme = 'light'", NO_COLOR="1", IOTOP_AI_THEME="dark")[0].theme == "dark"


@pytest.mark.parametrize(("text", "environ"), [("devices = ['sda']", {}), ("", {"IOTOP_AI_DEVICES": "sda"})])
def test_a_folder_on_the_command_line_replaces_the_devices_of_file_and_environment(
    path: Path, text: str, environ: dict[str, str]
) -> None:
    settings, origins = settings_from(path, text, {"path": "/data"}, **environ)
    assert (settings.devices, origins["devices"]) == ((), "flag --path")


def test_smart_types_of_flag_and_file_are_merged(path: Path) -> None:
    text = "[smart_types]\nsda = 'a'\nsdb = 'b'\n"
    assert settings_from(path, text, {"smart_types": (("sdb", "c"),)})[0].smart_types == (("sda", "a"), ("sdb", "c"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("intervall = 1", 1, "unknown key 'intervall'; did you mean 'interval'?"),
        ("\ninterval = 'fast'", 2, "interval: 'fast' is not a duration"),
        ("interval = true", 1, "interval: true is not a duration"),
        ("interval = 0.01", 1, "outside 0.1 to 3600"),
        ("interval = nan", 1, "outside 0.1 to 3600"),
        ("theme = 'pink'", 1, "'pink' is not one of dark"),
        ("ascii = 'maybe'", 1, "neither true nor false"),
        ("ascii = 1", 1, "neither true nor false"),
        ("devices = [1]", 1, "not a list of names"),
        ("hide = ['gpuu']", 1, "'gpuu' is not a panel"),
        ("hide_columns = ['rsss']", 1, "not a column that can be hidden; did you mean 'rss'?"),
        ("[marks]\nio_wait = 30\nutil = 200", 3, "marks.util: 200 is outside 0 to 100"),
        ("[marks]\nutilll = 2", 2, "unknown key 'marks.utilll'; did you mean 'marks.util'?"),
        ("marks = 3", 1, "unknown key 'marks'"),
        ("smart_types = 3", 1, "smart_types must be a table"),
        ("[smart_types]\n'' = 'sat'", 1, "smart_types must be a table; write a line like sda = 'megaraid,3' below"),
        ("[smart_types]\nsda = 'sat'\nsdb = 'Sat'", 3, "smart_types.sdb: 'Sat' is not a type for smartctl -d"),
        ("[keys]\n'sort.nxt' = ['x']", 2, "unknown action 'sort.nxt'; did you mean 'sort.next'?"),
        ("[keys]\nsort.next = ['x']\nsort.previous = ['foo']", 3, "sort.previous: 'foo' is not a key"),
        ("[keys]\nsort.next = ['Ctrl+@']", 2, "sort.next: 'Ctrl+@' cannot be bound: terminals send Ctrl+Space"),
        ("[keys]\nsort.next = 3", 2, "not a list of keys"),
        ("[keys]\nrows.active = ['F11']\nfilter.open = ['F11']", 2, "F11 is bound to filter.open and to rows.active"),
        (f"\ninterval = {'9' * 400}", 2, "is outside 0.1 to"),
        (f"\ninterval = 0x{'f' * 5000}", 2, "is outside 0.1 to"),
        (f"[marks]\nutil = {'9' * 400}", 2, "is outside 0 to 100"),
        (f"\ninterval = {'9' * 5000}", 2, "not TOML: a number is too long; write a shorter one"),
        (f"\ndevices = {'[' * 20_000}", 2, "not TOML: brackets are nested too deeply; close or remove some"),
        ("a = 1\nb", 2, "not TOML"),
        ("a = 1\na = 2", 2, "not TOML"),
        ("x = '\x1b[31m'", 1, "not TOML"),
    ],
)
def test_a_mistake_gives_one_line_with_its_place(path: Path, text: str, line: int, message: str) -> None:
    found = parse_config(path, text)
    (problem,) = found.problems if "a = 1\n" in text or len(found.problems) == 1 else found.problems[:1]
    assert problem.line == line
    assert message in problem.text
    where = found.describe(problem)
    assert where.startswith(f"{path}:{line}: ")
    assert where.isprintable()


def test_all_mistakes_are_listed_at_once(path: Path) -> None:
    found = parse_config(path, "intervall = 1\ntheme = 'pink'\nsort = 'cpu'\n[marks]\nutil = -1\n")
    assert [problem.line for problem in found.problems] == [1, 2, 5]
    assert found.values == {"sort": "cpu"}


def test_the_line_of_each_key_is_found() -> None:
    text = 'a = 1\n# b = 2\n[ t . "u v" ] # x\n"sort.next" = [\n  "a",\n]\nsort . last=1\n'
    assert key_lines(text) == {"a": 1, "t.u v": 3, "t.u v.sort.next": 4, "t.u v.sort.last": 7}
    assert key_lines("# a\u2028b\x85c\r\n[t]\r\na = 1\r\n") == {"t": 2, "t.a": 3}


def test_a_file_writable_by_all_is_refused(path: Path) -> None:
    write(path, "").chmod(0o602)
    with pytest.raises(
        UsageError, match="every user can write to it" if os.geteuid() else "users other than root can write"
    ):
        read_config(path, required=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_another_users_file_is_refused(path: Path) -> None:
    os.chown(write(path, "interval = 1"), 65534, 65534)
    with pytest.raises(UsageError, match="belongs to user 65534"):
        read_config(path, required=False)


def test_a_special_large_or_non_utf8_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match="not a regular file"):
            read_config(odd, required=True)
    big = write(tmp_path / "big", "#" * 300_000)
    with pytest.raises(UsageError, match="more than 256 KiB"):
        read_config(big, required=True)
    (tmp_path / "latin").write_bytes(b"a = 1\nb = '\xe9'\n")
    with pytest.raises(UsageError, match="latin:2: not UTF-8"):
        read_config(tmp_path / "latin", required=True)


def test_a_file_given_by_flag_must_exist(path: Path) -> None:
    assert read_config(path, required=False) is None
    with pytest.raises(UsageError, match="no settings file"):
        read_config(path, required=True)


def test_the_file_is_found_at_the_documented_place(tmp_path: Path) -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/iotop-ai/config.toml")
    home = config_path({"XDG_CONFIG_HOME": "relative", "HOME": str(tmp_path)})
    assert home.is_absolute()
    assert home.parts[-3:] == (".config", "iotop-ai", "config.toml")
    assert config_path({"IOTOP_AI_CONFIG": "/e"}) == Path("/e")
    assert config_path({"IOTOP_AI_CONFIG": "/e"}, "/f") == Path("/f")


def run(*argv: str) -> int:
    return main(["config", *argv])


def test_each_subcommand_of_config_works(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path.parent.parent))
    for name in ("NO_COLOR", *(setting.variable for setting in SETTINGS if setting.variable)):
        monkeypatch.delenv(name, raising=False)
    assert run("path") == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert run("validate") == 0
    assert "the defaults apply" in capsys.readouterr().out
    assert run("init") == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert run("validate") == 0
    assert "no mistakes, 0 settings" in capsys.readouterr().out
    assert run("init") == 2
    assert "exists; --force" in capsys.readouterr().err
    assert run("init", "--force") == 0
    capsys.readouterr()
    write(path, FULL)
    assert run("print") == 0
    shown = capsys.readouterr().out
    again = parse_config(path, shown)
    assert again.problems == ()
    assert again.values == parse_config(path, FULL).values
    assert f"# {path}:2" in shown
    write(path, "interval = 1234.567\n")
    assert run("print") == 0
    assert capsys.readouterr().out.startswith("interval = 1234.567 ")
    write(path, 'theme = 3\n[keys]\n"sort.next" = ["Space"]\n')
    assert run("validate") == 1
    out = capsys.readouterr().out
    assert f"{path}:1: theme: 3 is not one of" in out
    assert "note: Space now runs sort.next, no longer time.pause" in out
    assert main(["snapshot"]) == 2
    assert capsys.readouterr().err.startswith(f"usage: {path}:1: theme: 3")


def test_the_control_characters_of_a_path_do_not_reach_the_terminal(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = path.with_name("a\x1b[31m")
    shown = path.with_name("a\ufffd[31m")
    assert run("init", "--config", str(odd)) == 0
    assert capsys.readouterr().out == f"wrote {shown}\n"
    assert run("validate", "--config", str(odd)) == 0
    assert capsys.readouterr().out == f"{shown}: no mistakes, 0 settings\n"
    assert run("path", "--config", str(odd)) == 0
    assert capsys.readouterr().out == f"{odd}\n"  # a script needs the real name
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("path", "--config", str(odd)) == 0
    assert capsys.readouterr().out == f"{shown}\n"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(odd))
    assert run("validate") == 0
    assert capsys.readouterr().out == f"no file {shown}/iotop-ai/config.toml: the defaults apply\n"


def test_a_key_that_most_terminals_send_as_another_is_mentioned(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path.parent.parent))
    keys = (("Ctrl+H", "Backspace"), ("Ctrl+I", "Tab"), ("Ctrl+M", "Enter"), ("Ctrl+[", "Esc"))
    for word, sent in keys:
        write(path, f'[keys]\n"sort.next" = ["{word}"]\n')
        assert run("validate") == 0
        label = word.replace("+", "-")
        assert f"note: {label} arrives as {sent} from most terminals" in capsys.readouterr().out
    write(path, '[keys]\n"sort.next" = ["Ctrl+T"]\n')
    assert run("validate") == 0
    assert "arrives" not in capsys.readouterr().out


def test_the_template_has_every_setting_of_the_table(path: Path) -> None:
    text = config.template()
    plain = "\n".join(line if line.startswith("# ") else line.removeprefix("#") for line in text.splitlines())
    assert set(tomllib.loads(plain)) == {setting.name.partition(".")[0] for setting in SETTINGS}
    assert parse_config(path, plain).problems == ()


def test_the_documentation_is_up_to_date() -> None:
    assert config_doc.PAGE.read_text() == config_doc.page(), "run python -m tests.config_doc"
