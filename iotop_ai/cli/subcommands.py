"""The table of the commands of ``iotop-ai``, for the command line, its help and the palette of the screen."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class Subcommand(NamedTuple):
    """One subcommand.

    module: a module with ``add_arguments(parser)`` and ``run(args) -> int``, loaded only when used.
    """

    name: str
    module: str
    help: str


_FOLDER = "iotop_ai.cli.commands."
COMMANDS: tuple[Subcommand, ...] = (
    Subcommand("why", _FOLDER + "why", "why is it slow? watch 15 s, print the verdict; exits 1 when it is slow"),
    Subcommand("diagnose", _FOLDER + "diagnose", "the verdict over a period or a whole recording, as text or JSON"),
    Subcommand("report", _FOLDER + "reports.report", "what happened in a recorded run: text, HTML, Markdown or JSON"),
    Subcommand("compare", _FOLDER + "reports.compare", "two recorded runs: what changed, how certain that is, and why"),
    Subcommand("status", _FOLDER + "status", "one short line for a status bar or a prompt; --format selects its form"),
    Subcommand("snapshot", _FOLDER + "snapshot", "all figures of one interval, as text or JSON"),
    Subcommand("ack", _FOLDER + "health.ack", "acknowledge a failing disk or GPU until it gets worse"),
    Subcommand(
        "health", _FOLDER + "health.command", "every disk's health; exits 0 healthy, 1 not, 2 unknown, for cron"
    ),
    Subcommand("gpu-log", _FOLDER + "gpu_log", "log GPUs in the format of nvidia-smi --query-gpu, flushing each line"),
    Subcommand("trend", _FOLDER + "trend", "watch for a while, then print charts"),
    Subcommand(
        "record", _FOLDER + "record.command", "record the machine's counters, continuously or while a command runs"
    ),
    Subcommand("service", _FOLDER + "service", "print a systemd unit that records continuously"),
    Subcommand("serve", _FOLDER + "serve.command", "serve figures and verdict to Prometheus; also record if wanted"),
    Subcommand(
        "fleet", _FOLDER + "fleet.command", "every machine that Prometheus knows, worst first; exits 1 on trouble"
    ),
    Subcommand("alerts", _FOLDER + "alerts", "list the alert rules, or send a test message"),
    Subcommand("assets", _FOLDER + "assets", "files for Grafana, Prometheus, systemd, Slurm, Kubernetes"),
    Subcommand("replay", _FOLDER + "replay", "show a recording, or another machine's live stream from a pipe"),
    Subcommand("mark", _FOLDER + "mark", "put a mark on the timeline of every monitor and recording of this user"),
    Subcommand("export", _FOLDER + "export", "export a recording as CSV, JSON Lines, SQLite or Parquet tables"),
    Subcommand(
        "cache",
        _FOLDER + "dataset.cache",
        "show how much of a dataset is in the page cache; evict it; drop the host's caches",
    ),
    Subcommand("check", _FOLDER + "preflight.check", "measure how fast storage is, before a training job starts"),
    Subcommand(
        "loader", _FOLDER + "preflight.loader", "sweep your data loader's settings; find those that hang or crash"
    ),
    Subcommand("doctor", _FOLDER + "preflight.doctor", "what makes measuring or training fail here, with remedies"),
    Subcommand("web", _FOLDER + "web.command", "show the read-only screen in a browser on this machine (extra: web)"),
    Subcommand("config", _FOLDER + "config", "create, print and check the settings file"),
    Subcommand("stage", _FOLDER + "dataset.stage", "copy a dataset to faster storage: plan, measure, copy, verify"),
    Subcommand(
        "help", _FOLDER + "help_topics", "explain a command, a word of the screen, or keys, filter, times, exit-codes"
    ),
    Subcommand("import", _FOLDER + "import_logs", "convert a log of iostat or nvidia-smi into a recording"),
)


def shell_commands() -> tuple[tuple[str, str], ...]:
    """Return the name and the help of each command, for the palette of the screen."""
    return tuple((command.name, command.help) for command in COMMANDS)
