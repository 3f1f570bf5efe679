"""Finds the program that each Ray worker works for, and the role of the worker.

A raylet starts the workers of all programs on its machine. So workers are descendants of their program only if its
``ray.init()`` started the raylet: python/ray/_private/services.py, src/ray/raylet/worker_pool.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.job.process_tree import CandidateTree
from iotop_ai.model.job.programs import is_part_of_ray, is_python, ray_title
from iotop_ai.model.process.records import ProcessKey

_TRAINS = pattern(r"Train(?:er|able|Worker)|Learner\b|ImplicitFunc|\.train\b")
"""Matches the title of an actor that trains: Ray Train's RayTrainWorker, RLlib's Learner, Tune's trainables."""
_RAYLET = "raylet"


class RayRoles(NamedTuple):
    """The role of each Ray worker, and the program that it works for.

    owner: the program that each worker works for; if unknown, the oldest worker of the same Ray job
    ranks: the workers that train; if there are none, the program itself trains and all workers load data for it
    """

    owner: Mapping[ProcessKey, ProcessKey] = {}
    ranks: frozenset[ProcessKey] = frozenset()

    @property
    def workers(self) -> frozenset[ProcessKey]:
        """The workers that do not train."""
        return frozenset(self.owner) - self.ranks


NO_ROLES = RayRoles()


def ray_roles(tree: CandidateTree) -> RayRoles:
    """The roles of Ray's workers; empty without such workers."""
    if not tree.ray:
        return NO_ROLES
    programs = sorted((key for key in tree.candidates if _is_program(tree, key)), key=_age)
    owner: dict[ProcessKey, ProcessKey] = {}
    # By raylet and user: if the raylet is unknown, only the user keeps the workers of two clusters apart.
    by_raylet: dict[tuple[ProcessKey | None, int], list[ProcessKey]] = {}
    for key in sorted(tree.ray, key=_age):
        known_ancestors = [ancestor for ancestor in tree.ancestors(key) if ancestor in tree.info]
        raylet = next((ancestor for ancestor in known_ancestors if tree.info[ancestor].name == _RAYLET), None)
        starter = None if raylet is None else _starter(tree, raylet)
        if starter is not None:
            owner[key] = starter
        else:
            by_raylet.setdefault((raylet, tree.info[key].uid), []).append(key)
    # A program that started a raylet uses only that raylet, so workers of other raylets do not work for it.
    on_cluster = [key for key in programs if key not in owner.values()]
    for workers in by_raylet.values():
        owner |= _owners(tree, workers, on_cluster)
    ranks = {key for key in owner if key.pid in tree.on_gpu}
    with_gpu = {owner[key] for key in ranks}
    ranks |= {k for k in owner if owner[k] not in with_gpu and _TRAINS.search(ray_title(tree.info[k])) is not None}
    return RayRoles(owner, frozenset(ranks))


def _age(key: ProcessKey) -> tuple[int, int]:
    return key.start_ticks, key.pid


def _is_program(tree: CandidateTree, key: ProcessKey) -> bool:
    """Whether the process is a user's program that imports Ray."""
    if key in tree.ray or key in tree.pool_children or key in tree.loaders or is_part_of_ray(tree.info[key]):
        return False
    return "ray" in tree.inspection(key).modules


def _starter(tree: CandidateTree, raylet: ProcessKey) -> ProcessKey | None:
    """The program that started the raylet by ``ray.init()``; None if ``ray start`` started it."""
    for ancestor in tree.ancestors(raylet):
        record = tree.info.get(ancestor)
        if record is not None and is_python(record) and not is_part_of_ray(record):
            return ancestor
    return None


def _job_order(ray_job: str) -> list[str]:
    """A sort key for Ray's job ids, hex numbers with the lowest byte first (src/ray/common/id.cc, FromInt)."""
    return [ray_job[start : start + 2] for start in range(0, len(ray_job), 2)][::-1]


def _owners(tree: CandidateTree, workers: list[ProcessKey], programs: list[ProcessKey]) -> dict[ProcessKey, ProcessKey]:
    """The owner of each worker: the only program of their user, or else the user's nth program for the nth job id.

    If there are not as many programs as job ids, the owner is the oldest worker with the same job id.

    workers: the workers of one raylet and one user, oldest first
    """
    of_user = [key for key in programs if tree.info[key].uid == tree.info[workers[0]].uid]
    ids = sorted({tree.inspection(key).ids.ray for key in workers} - {""}, key=_job_order)
    if len(of_user) == 1:
        return dict.fromkeys(workers, of_user[0])
    by_id = dict(zip(ids, of_user, strict=True)) if len(ids) == len(of_user) else {}
    out: dict[ProcessKey, ProcessKey] = {}
    oldest: dict[str, ProcessKey] = {}
    for key in workers:
        job_id = tree.inspection(key).ids.ray
        out[key] = by_id.get(job_id) or oldest.setdefault(job_id, key)
    return out
