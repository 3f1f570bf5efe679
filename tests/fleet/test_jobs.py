"""Jobs that run on several machines, joined from made-up answers."""

from __future__ import annotations

from iotop_ai.fleet.answer import Answer, Series
from iotop_ai.fleet.jobs import job_parts, joined_jobs
from iotop_ai.fleet.names import host_of
from iotop_ai.model.fleet.records import FleetJob
from iotop_ai.present.fleet.jobs_screen import selected_job
from iotop_ai.present.fleet.screen import job_text
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.present.screen.view import View


def ids(machine: str, pid: int, **labels: str) -> dict[str, str]:
    return {"instance": f"{machine}:9743", "pid": str(pid), "script": "train.py", **labels}


def jobs(*infos: tuple[dict[str, str], float], late: dict[str, str] | None = None) -> tuple[FleetJob, ...]:
    """The jobs of these series of iotop_job_info. late: the labels of the job whose rank 13 is late."""
    without_ranks = [{name: one[name] for name in one if name not in ("ranks", "rank_group")} for one, _ in infos]
    answers = {
        "job ranks": Answer(tuple(Series(one, 8.0) for one in without_ranks)),
        "job info": Answer(tuple(Series(one, value) for one, value in infos)),
        "late rank": Answer(() if late is None else (Series(late, 13.0),)),
    }
    return joined_jobs(job_parts(answers, host_of), {})


def test_parts_without_a_batch_job_are_joined_by_their_group() -> None:
    group = "100@node-1:29500"
    found = jobs(
        (ids("a", 1, ranks="0-7", rank_group=group), 2),
        (ids("b", 2, ranks="8-15", rank_group=group), 2),
        (ids("c", 3, ranks="0-7", rank_group="100@node-9:29500"), 2),
        (ids("d", 4, unit="pod 1a2b3c4d"), 2),
        (ids("e", 5), 2),
        late=ids("b", 2),
    )
    assert {job.name: [part.machine for part in job.parts] for job in found} == {
        group: ["a", "b"],
        "c pid 3": ["c"],
        "pod 1a2b3c4d": ["d"],
        "e pid 5": ["e"],
    }
    (joined,) = [job for job in found if len(job.parts) > 1]
    assert [(part.numbers, part.late_rank) for part in joined.parts] == [("0-7", None), ("8-15", 13)]


def test_a_batch_job_takes_precedence_over_a_rank_group() -> None:
    found = jobs(
        (ids("a", 1, slurm_job_id="7", rank_group="x:1"), 2),
        (ids("b", 2, slurm_job_id="7", rank_group="y:1"), 2),
        (ids("c", 3, slurm_job_id="8", rank_group="x:1"), 2),
    )
    assert {job.name: len(job.parts) for job in found} == {"slurm 7": 2, "slurm 8": 1}


def test_the_newest_rank_numbers_are_used_and_invalid_ones_are_dropped() -> None:
    (job,) = jobs((ids("a", 1, ranks="0-7"), 1), (ids("a", 1, ranks="8-15", rank_group="x:1"), 2), (ids("a", 1), 1))
    assert [(part.numbers, part.group) for part in job.parts] == [("8-15", "x:1")]
    (job,) = jobs((ids("a", 1, ranks="[b]8[/b]"), 2))
    assert job.parts[0].numbers == ""


def test_jobs_of_one_unit_have_different_keys() -> None:
    found = jobs(
        (ids("a", 1, unit="train.service"), 2),
        (ids("a", 2, unit="train.service"), 2),
        (ids("b", 1, unit="train.service"), 2),
    )
    assert {job.name for job in found} == {"train.service"}
    shown = FleetView(View())
    for i, job in enumerate(found):
        assert selected_job(found, shown._replace(job=job.key)) == i


def test_two_processes_of_one_batch_job_count_their_machine_once() -> None:
    (job,) = jobs((ids("a", 1, slurm_job_id="7"), 1), (ids("a", 2, slurm_job_id="7"), 2))
    assert job_text(job) == "slurm 7 train.py on 1 machine"


def test_an_ended_attempt_counts_no_gpus_and_no_ranks_and_makes_no_straggler() -> None:
    """The job started again on both machines; the scrape of a third failed, so none of its series is current."""
    spent = {
        ("a", 1): {"startup": 40.0}, ("b", 1): {"startup": 40.0},
        ("a", 2): {"compute": 175.0, "collective": 75.0}, ("b", 2): {"compute": 175.0, "collective": 75.0},
        ("c", 3): {"compute": 175.0, "collective": 75.0},
    }  # fmt: skip
    labels = {key: ids(*key, slurm_job_id="7") for key in spent}
    counts = Answer(tuple(Series(one, 8.0) for one in labels.values()))
    answers = {
        "job time": Answer(
            tuple(
                Series({**labels[key], "bucket": name}, s) for key, times in spent.items() for name, s in times.items()
            )
        ),
        "job GPUs": counts,
        "job ranks": counts,
        "job info": Answer(tuple(Series(one, 2.0 if key[1] == 2 else 1.0) for key, one in labels.items())),
    }
    (job,) = joined_jobs(job_parts(answers, host_of), {})
    assert (job.gpus, job.ranks, job.machine_count, job.straggler) == (24, 24, 3, None)
    assert len(job.parts) == 5
    assert sum(job.seconds or ()) == 8 * (2 * 40 + 3 * 250)
