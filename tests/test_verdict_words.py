"""In every labelled recording, each cure and the name of each state agree with the figures beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from iotop_ai.diagnosis.facts.block import base_of
from iotop_ai.model.finding import Advice, Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_class import LOSING, State
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.cures import advice_text
from iotop_ai.present.verdict.evidence import MET, facts_of
from tests.judged import KEPT, judged

TORCH = re.compile(r"torch|pin_memory|DataLoader|persistent_workers")
OF_A_GPU = re.compile(r"\bGPUs?\b|nvidia-smi|CUDA")


def each(*names: str) -> pytest.MarkDecorator:
    """Run a test for each recording. All tests of a recording run on one worker, so that it is judged only once."""
    kept = [pytest.param(name, marks=pytest.mark.xdist_group(f"words of {name}")) for name in names]
    return pytest.mark.parametrize("name", kept)


def decided(name: str) -> tuple[Frame, ...]:
    return judged(name).decided


def printed(frame: Frame, finding: Finding) -> str:
    """The text beside a finding's cures: the finding's sentences and its evidence."""
    verdict = frame.verdict._replace(findings=(finding,))
    rows = [f"{fact.words} {fact.value} {fact.limit}" for fact in facts_of(finding)]
    parts = (headline.headline(verdict), headline.because(verdict))
    return "\n".join([*(headline.text_of(part) for part in parts), *rows])


def uid_of(frame: Frame, pid: int) -> int | None:
    table = frame.snapshot.processes.value
    return None if table is None else next((info.uid for key, info in table.info.items() if key.pid == pid), None)


def cores(frame: Frame, finding: Finding, cure: Advice, text: str, beside: str) -> bool:
    """The texts "all cores are used" and "more workers" agree with the number of idle cores that is printed."""
    idle = re.search(r"([<\d.]+) of ([\d.]+) cores idle", beside)
    figure = None if idle is None else float(idle[1].lstrip("<"))
    if idle is not None and figure is not None and figure > float(idle[2]):
        return False
    if re.search(r"all [\d.]+ cores are used|the one core is used", text):
        return figure is not None and figure <= max(0.25, 0.02 * float(idle[2] if idle else 0))
    if cure.template == "more_workers":
        return figure is not None and figure >= 1
    if "cores idle" not in text or figure is None:
        return True
    return bool(idle and idle[0] in text) and (figure < 1 or "too few" in text)


def grows(frame: Frame, finding: Finding, cure: Advice, text: str, beside: str) -> bool:
    """A number that the cure wants to raise does increase."""
    steps = re.findall(r"(\d+) -> (\d+)", text)
    limit = re.search(r"-pl (\d+): the limit of .* is (\d+) W", text)
    link = re.search(r"can do (gen \d+ x\d+)", text)
    narrow = link is None or f"link {link[1]} of" not in beside
    return all(int(a) < int(b) for a, b in steps) and (limit is None or int(limit[1]) > int(limit[2])) and narrow


def exists(frame: Frame, finding: Finding, cure: Advice, text: str, beside: str) -> bool:
    """Whether a cure about a GPU has a GPU, and one that copies the data another disk with enough room."""
    if OF_A_GPU.search(text) and cure.template != "cheaper_transforms" and not frame.snapshot.gpu.value:
        return "GPU" in beside or cure.template in ("fewer_syncs", "less_memory")
    if "decode on the GPU" in text and not frame.snapshot.gpu.value:
        return False
    args = dict(cure.args)
    if cure.template == "copy_data":
        infos = frame.snapshot.disks.value or {}
        ends = [
            {base_of(info, infos).name for info in infos.values() for mount in info.mounts if mount.path == args[end]}
            for end in ("source", "target")
        ]
        fits = isinstance(args["room"], float) and isinstance(args["bytes"], float) and args["room"] >= args["bytes"]
        return fits and not (ends[0] & ends[1])
    return True


def allowed(frame: Frame, finding: Finding, cure: Advice, text: str, beside: str) -> bool:
    """No command is about another user's process, and none contains sudo if the monitor runs as root."""
    if "sudo" in text and frame.snapshot.host.euid == 0:
        return False
    table = frame.snapshot.jobs.value
    own = {frame.snapshot.host.euid, *(() if table is None else (job.uid for job in table.jobs.values()))}
    commands = r"(?:ionice -c3 -p|renice -n 19 -p|ps -Lo lwp= -p|end pid|kill -CONT) (\d+(?:[ ,]\d+)*)"
    pids = " ".join(re.findall(commands, text)).replace(",", " ").split()
    return text.startswith("ask ") or all(uid_of(frame, int(pid)) in {*own, None} for pid in pids)


def fits_framework(frame: Frame, finding: Finding, cure: Advice, text: str, beside: str) -> bool:
    """Calls of torch are advised only for jobs of torch."""
    table = frame.snapshot.jobs.value
    frameworks = set() if table is None else {job.framework for job in table.jobs.values()}
    return not TORCH.search(text) or not frameworks or bool(frameworks & {"torch", ""})


def same_figures(frame: Frame, finding: Finding, cure: Advice, text: str, beside: str) -> bool:
    """A limit or a temperature in a cure is the one that is printed."""
    limit = re.search(r"raise the (?:memory )?limit of ([\d.]+ \S+)", text)
    cool = re.search(r"below (\d+) C", text)
    return (limit is None or limit[1].rstrip(",") in beside) and (cool is None or cool[1] in beside)


RULES: tuple[Callable[[Frame, Finding, Advice, str, str], bool], ...] = (
    *(cores, grows, exists, allowed, fits_framework, same_figures),
)


def contradictions(name: str) -> Iterator[str]:
    for frame in decided(name):
        for finding in frame.verdict.findings:
            beside = printed(frame, finding)
            for cure in finding.advice:
                text = advice_text(cure)
                for rule in RULES:
                    if not rule(frame, finding, cure, text, beside):
                        yield f"{finding.class_id}, {rule.__name__}: {text!r} beside {beside!r}"


@each(*sorted(KEPT))
def test_no_cure_contradicts_the_evidence_of_its_finding(name: str) -> None:
    assert list(dict.fromkeys(contradictions(name))) == []


@each(*sorted(KEPT))
def test_each_finding_has_a_figure_that_meets_its_threshold(name: str) -> None:
    seen = set()
    for frame in decided(name):
        for finding in frame.verdict.findings:
            # The figures of a finding that is about to end may be below the threshold that it once met.
            if (finding.class_id, finding.subject) in seen:
                continue
            seen.add((finding.class_id, finding.subject))
            facts = facts_of(finding)
            if finding.class_id not in ("unknown", "starting") and any(fact.limit for fact in facts):
                assert MET in {fact.standing for fact in facts}, (finding.class_id, facts)


@each(*sorted(name for name, kept in KEPT.items() if kept["label"] in ("healthy", "idle")))
def test_a_healthy_machine_is_not_unsure_after_the_first_window(name: str) -> None:
    """The first two seconds do not count, because an activity of the machine has to last that long to be named."""
    states = {frame.verdict.state for frame in [one for one in decided(name) if not one.verdict.measuring][2:]}
    assert states <= {State.OK, State.CALM, State.BUSY}


@each(*sorted(KEPT))
def test_a_very_slow_disk_is_in_the_banner(name: str) -> None:
    for frame in decided(name):
        slow = frame.verdict.slow_disk
        if slow is None or frame.verdict.measuring:
            continue
        parts = (headline.headline, headline.because, headline.second)
        shown = "\n".join(headline.text_of(part(frame.verdict)) for part in parts)
        named = {dict(one.args).get("device") for one in frame.verdict.findings if one.state in LOSING}
        assert slow.label in shown or slow.device in named, shown


@pytest.mark.xdist_group("words of cpu_prep")
def test_a_cure_that_contradicts_its_evidence_is_found() -> None:
    frame = decided("cpu_prep")[-1]
    primary = frame.verdict.primary
    beside = printed(frame, primary)
    wrong = Advice("cheaper_transforms", (("cores", 2.0), ("idle", 0.0), ("gpu", 1.0)))
    text = advice_text(wrong)
    assert not exists(frame, primary, wrong, text, beside)
    assert not cores(frame, primary, wrong, text, re.sub(r"\S+ of 2 cores", "1 of 2 cores", beside))
    assert not grows(frame, primary, wrong, "num_workers 2 -> 1", beside)
