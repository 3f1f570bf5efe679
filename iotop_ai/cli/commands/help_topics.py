"""``iotop-ai help TOPIC``: the options of a command, a column or state of the screen, or another topic."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from textwrap import wrap

from iotop_ai.model.errors import UsageError
from iotop_ai.present.screen.bounds import clamp_size

_INDENT = 22
_STATES = (
    ("STARVED", "a job waits for data, because of storage, the network, the CPUs, a single thread or the loader"),
    (
        "BLOCKED",
        "a job died, or stands still at times: a checkpoint, another rank, a GPU fault, a full filesystem",
    ),
    ("SLOWED", "a job is slowed by memory pressure, throttled GPUs, PCIe or ranks of different speed"),
    ("FAILING", "a disk, or the path to it, is failing; data is in danger"),
    ("WASTED", "a GPU does nothing, whether it is free or a process holds it"),
    ("STARTING", "a job loads or compiles, and has not trained yet"),
    ("OK", "a job trains, and nothing holds it up"),
    ("CALM", "nothing is slow, but no training job was seen, or too little of it to call it healthy"),
    ("BUSY", "there is no training job, but a disk, the CPUs or the memory is at its limit"),
    ("UNSURE", "something waits or cannot be seen, and no cause is found; or less than 10 s were watched"),
)
_SHARES = (
    ("compute", "the GPUs work; without a GPU, the job's threads compute, or sleep as in a driver's call"),
    ("data: disk", "the trainer waits for data, and what loads it waits for a disk"),
    ("data: network", "the trainer waits for data, and what loads it waits for the network"),
    ("data: CPU", "the trainer waits for data, and what loads it computes: decoding, transforms"),
    ("data: other", "the trainer waits for data, and what loads it does something else, such as waiting for a lock"),
    ("collective", "ranks wait for another rank"),
    ("transfer", "data is copied to the GPU at the rate of the link"),
    ("host", "the main thread runs on the CPU, the GPUs are idle, and nothing is loaded"),
    ("checkpoint", "the job waits for its own writes"),
    ("startup", "the time before the first step"),
    ("compile", "kernels are compiled"),
    ("stopped", "a signal, a debugger or a frozen cgroup stops the job"),
    ("hung", "the job made no progress for a minute"),
    ("unexplained", "all other time, such as a sleep whose reason the kernel does not show"),
)
"""The shares of a job's time, which add up to 100 %."""
_WORKER_STATES = (
    ("run", "the loader workers' time on a CPU"),
    ("cpu-wait", "their time ready to run, but without a CPU"),
    ("blocked", "their time waiting for a disk or a network filesystem"),
    ("idle", "their time without work: batches are ready"),
)
"""The states of the workers in the path of the data."""
_LABELS = (
    ("because", "what the verdict is based on"),
    ("since", "when the state began; before it, the bar of the last hour"),
    ("not", "causes that are ruled out, and why"),
    ("do", "the advice; Enter on the verdict shows all of it"),
    ("typical", "await of this disk at normal times; learned, or that of its kind for reads of this size"),
    ("path", "the way of the data: job, workers, mount, disk, or what of it is seen"),
    ("peak", "the highest value in the time shown"),
    ("self", "CPU of one core and memory that iotop-ai itself takes"),
    ("capped", "share of time in which the power limit holds the clock down"),
    ("CV", "standard deviation divided by mean: how unsteady a rate is; in reports"),
)
"""The words that stand before or between the figures of the screen and of reports."""
_CONFIDENCE = (
    ("high", "85 % or more"),
    ("medium", "60 % or more"),
    ("low", "less than 60 %"),
    (
        "what lowers it",
        "few kinds of signals, a missing GPU, an unknown mapping of processes to GPUs, unreadable I/O: docs/rules.md",
    ),
    ("what raises it", "more signals: sudo, and what iotop-ai doctor lists"),
)
_FILTER = (
    ("train", "a regular expression over name, command line, user and pid"),
    ("read > 10M", "also write, io: bytes per second of a single process, not of its row; K, M, G are powers of 1024"),
    ("cpu > 50", "percent: cpu, delay (time blocked on disk)"),
    ("mem > 4G", "resident memory"),
    ("pid = 4711", "also ppid, threads; = != > >= < <="),
    ("user = alice", "also name, command, state; ~ and !~ for regular expressions"),
    ("tagged", "the tagged processes"),
    ("a and not (b or c)", "several conditions; an unknown value matches nothing"),
)
_TIMES = (
    ("14:32, 14:32:05", "the recording's last moment with this time of day, in this machine's time zone"),
    ("2026-11-21T14:32:05Z", "a moment; without Z, in this machine's time zone"),
    ("-3m", "3 minutes before the end, or before now on the live screen; also 90s, 10m, 1h30m, 7d"),
    ("+3m", "3 minutes after the start"),
    ("45%", "after 45 % of the recording"),
    ("start, end", "the recording's first or last moment; also begin"),
)
_EXITS = (
    ("0", "fine"),
    (
        "1",
        "a problem was found; with why and diagnose: the job is slowed, starved or blocked, hardware fails, GPUs idle",
    ),
    ("2", "no answer; one line on stderr begins with usage:, input:, unknown: or not done:"),
    ("128+n", "ended by signal n; record -- COMMAND passes the command's own code on"),
)


def _keys() -> Iterator[str]:
    from iotop_ai.present.screen.help import TITLES, screen_keys
    from iotop_ai.present.screen.key_row import keys_of
    from iotop_ai.present.screen.view import View

    for title, keys in (("main screen", keys_of(View())), *((TITLES[s], screen_keys(View(), s)) for s in TITLES)):
        yield f"{title}:"
        yield from _table((key.keys, key.text) for key in keys)
        yield ""
    yield "The settings file can change keys: iotop-ai config init, docs/configuration.md."


def _columns() -> Iterator[str]:
    from iotop_ai.present.screen.column_help import COLUMN_HELP
    from iotop_ai.present.screen.help import TITLES

    for screen, entries in COLUMN_HELP.items():
        yield f"{TITLES.get(screen, 'main screen')}:"
        yield from _table(entries)
        yield ""


def _column(name: str) -> Iterator[str]:
    """Yield the meaning of a column on each screen that has it. A long name such as rareq-sz also finds its column."""
    from iotop_ai.present.screen.column_help import COLUMN_HELP
    from iotop_ai.present.screen.help import TITLES

    seen: set[tuple[str, str]] = set()
    for screen, entries in COLUMN_HELP.items():
        matches = [entry for entry in entries if _is_about(entry, name) and entry not in seen]
        seen.update(matches)
        if matches:
            yield f"{TITLES.get(screen, 'main screen')}:"
            yield from _table(matches)


def _states() -> Iterator[str]:
    """Yield the states of the verdict, then the words in capitals of each screen."""
    from iotop_ai.present.screen.column_help import STATE_HELP
    from iotop_ai.present.screen.help import TITLES

    yield from _table(_STATES)
    for screen, entries in STATE_HELP.items():
        yield ""
        yield f"{TITLES.get(screen, 'main screen')}:"
        yield from _table(entries)


def _shares() -> Iterator[str]:
    yield "Where a job's time goes, in its row below the verdict and on its page. The shares add up to 100 %."
    yield from _table(_SHARES)
    yield "What the loader workers do, in the path of the data:"
    yield from _table(_WORKER_STATES)


def _share(name: str) -> Iterator[str]:
    """Yield the meaning of a share of a job's time, of a state of its workers, or of a label."""
    wanted = name.replace("_", " ").replace(":", "")
    for entry in (*_SHARES, *_WORKER_STATES, *_LABELS):
        term = entry[0].replace(":", "")
        if wanted in (term, term.lower()):
            yield from _table([entry])


def _state(name: str) -> Iterator[str]:
    """Yield the meaning of a verdict's state, the classes that show it, and what the word means on each screen."""
    from iotop_ai.model.verdict_class import CLASS_SPECS
    from iotop_ai.present.screen.column_help import STATE_HELP
    from iotop_ai.present.screen.help import TITLES

    yield from _table((word, text) for word, text in _STATES if word == name.upper())
    if classes := [spec.class_id for spec in CLASS_SPECS.values() if spec.state == name.upper()]:
        yield from _table([("classes", ", ".join(classes))])
    for screen, entries in STATE_HELP.items():
        if matches := [entry for entry in entries if entry[0] == name.upper()]:
            yield f"{TITLES.get(screen, 'main screen')}:"
            yield from _table(matches)


def _class(name: str) -> Iterator[str]:
    """Yield the meaning of a class, named by its id or as the screen names it."""
    from iotop_ai.diagnosis.rules import RULES
    from iotop_ai.model.verdict_class import CLASS_SPECS
    from iotop_ai.present.verdict.class_names import CLASS_NAMES

    for spec in CLASS_SPECS.values():
        if name not in (spec.class_id, CLASS_NAMES[spec.class_id]):
            continue
        yield f"{spec.class_id}: the screen shows {spec.state}, {CLASS_NAMES[spec.class_id]}"
        if spec.class_id == "unknown":
            yield from _table([("no rule applies", "CALM or BUSY if the figures show it, otherwise UNSURE")])
        claims = (_claim(rule.__doc__ or "") for rule in RULES)
        yield from _table(("seen", text) for class_id, text in claims if class_id == spec.class_id)
        yield "docs/rules.md has the evidence, the limits and what each rule cannot see."


def _claim(doc: str) -> tuple[str, str]:
    """Return the class and the claim in a rule's docstring."""
    sentence, _, rest = doc.partition("\n\n")
    class_id, _, claim = " ".join(rest.partition("Claim: ")[2].partition("Evidence: ")[0].split()).partition(": ")
    return class_id, f"{' '.join(sentence.split()).removesuffix('.')}: {claim}"


def _words(topic: str) -> list[str]:
    """The meanings of a word of the screen."""
    return [*_state(topic), *_class(topic), *_share(topic), *_column(topic)]


def _figures() -> Iterator[str]:
    from iotop_ai.model.condition.figures import FAMILIES, SHARE_NAMES, fields_of

    yield "Figures of a condition (--fail-if, alerts.toml); docs/conditions.md has the grammar."
    yield from _table([("shares", ", ".join(SHARE_NAMES))])
    for name, family in FAMILIES.items():
        prefix = name if family.alone else f"{name}.NAME"
        yield from _table([(f"{prefix}.", ", ".join(fields_of(name)))])


def _is_about(entry: tuple[str, str], name: str) -> bool:
    """Whether the name is the entry's title or a word of it, or a word with a hyphen in the entry's text."""
    term, text = entry
    return name == term or name in term.split() or ("-" in name and name in text.replace("(", " ").split())


TOPICS: dict[str, tuple[str, Callable[[], Iterable[str]]]] = {
    "keys": ("every key of every screen", _keys),
    "columns": ("what each column means", _columns),
    "states": ("the words in capitals of the verdict and of each screen", _states),
    "shares": ("where a job's time goes, and what its workers do", _shares),
    "labels": ("the words before and between the figures", lambda: _table(_LABELS)),
    "confidence": ("what high, medium and low mean", lambda: _table(_CONFIDENCE)),
    "filter": ("the language of the filter that the key / opens", lambda: _table(_FILTER)),
    "figures": ("what --fail-if and alerts compare", _figures),
    "times": ("how to write a time for --at, --begin, --end and @", lambda: _table(_TIMES)),
    "exit-codes": ("what the exit codes mean", lambda: _table(_EXITS)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``help``."""
    topics = ", ".join(TOPICS)
    parser.add_argument(
        "topic",
        metavar="TOPIC",
        nargs="*",
        help=f"a command, a column, state or share of the screen, a class of the verdict, or one of {topics}",
    )


def run(args: argparse.Namespace) -> int:
    """Print the topic, or the list of topics if the user names none."""
    from iotop_ai.cli.main import build_parser
    from iotop_ai.cli.subcommands import COMMANDS

    commands = {command.name: command.help for command in COMMANDS}
    topic = " ".join(args.topic)
    if not topic:
        lines = ["iotop-ai help TOPIC, with one of these:", *_table((name, text) for name, (text, _) in TOPICS.items())]
        lines += [
            "or with a word of the screen, such as r_await, STARVED or cpu-wait, or with a command:",
            *_table(commands.items()),
        ]
    elif topic in TOPICS:
        lines = list(TOPICS[topic][1]())
    elif not (lines := [] if topic in commands else _words(topic)):
        if args.topic[0] in commands:  # the words after it are an action, as in "cache drop"
            for words in (args.topic, args.topic[:1]):  # record takes all words after it as its command, --help too
                build_parser(words).parse_args([*words, "--help"])  # prints the help and exits
        raise UsageError(
            f"{topic!r} is not a topic, column, command, state or class; topics: {', '.join(TOPICS)}; iotop-ai"
            f" help columns lists the columns, iotop-ai --help the commands"
        )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _table(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each term with its text, wrapped to the terminal's width."""
    width, _ = clamp_size(*shutil.get_terminal_size((100, 24)))
    room = max(20, min(width, 120) - _INDENT - 1)
    for term, text in entries:
        first, *more = wrap(text, room) or [""]
        yield f"  {term:<{_INDENT - 2}}{first}" if len(term) < _INDENT - 2 else f"  {term}\n{'':{_INDENT}}{first}"
        yield from (f"{'':{_INDENT}}{line}" for line in more)
