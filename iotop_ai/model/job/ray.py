"""Ray's processes: the program that each belongs to, and its role.

A raylet starts the workers of every program of its machine, so a program's workers are not its descendants, unless
``ray.init()`` started the raylet: python/ray/_private/services.py, src/ray/raylet/worker_pool.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.job.process_tree import CandidateTree
from iotop_ai.model.job.programs import is_python, is_ray_service, ray_title
from iotop_ai.model.process.records import ProcessKey

_TRAINS = pattern(r"Train(?:er|able|Worker)|Learner\b|ImplicitFunc|\.train\b")
"""In the title of an actor that trains: Ray Train's RayTrainWorker, RLlib's Learner, Tune's trainables."""
_RAYLET = "raylet"


class RayRoles(NamedTuple):
    """owner: of each of Ray's workers, the program that it works for, else the oldest worker of the same Ray job.

    ranks: the workers that train. Without any the program itself trains, and all workers work for it.
    """

    owner: Mapping[ProcessKey, ProcessKey] = {}
    ranks: frozenset[ProcessKey] = frozenset()

    @property
    def workers(self) -> frozenset[ProcessKey]:
        """The workers that do not train."""
        return frozenset(self.owner) - self.ranks


NO_ROLES = RayRoles()


def ray_roles(tree: CandidateTree) -> RayRoles:
    """The roles of Ray's workers; empty without any."""
    if not tree.ray:
        return NO_ROLES
    programs = sorted((key for key in tree.candidates if _is_program(tree, key)), key=_age)
    owner: dict[ProcessKey, ProcessKey] = {}
    shared: dict[ProcessKey | None, list[ProcessKey]] = {}
    for key in sorted(tree.ray, key=_age):
        raylet = next((up for up in tree.above(key) if up in tree.info and tree.info[up].name == _RAYLET), None)
        starter = None if raylet is None else _starter(tree, raylet)
        if starter is not None:
            owner[key] = starter
        else:
            shared.setdefault(raylet, []).append(key)
    # A program that started a raylet of its own uses no other.
    free = [key for key in programs if key not in owner.values()]
    for workers in shared.values():
        owner |= _owners(tree, workers, free)
    ranks = {key for key in owner if key.pid in tree.on_gpu}
    with_gpu = {owner[key] for key in ranks}
    ranks |= {k for k in owner if owner[k] not in with_gpu and _TRAINS.search(ray_title(tree.info[k])) is not None}
    return RayRoles(owner, frozenset(ranks))


def _age(key: ProcessKey) -> tuple[int, int]:
    return key.start_ticks, key.pid


def _is_program(tree: CandidateTree, key: ProcessKey) -> bool:
    """Whether it is a program that uses Ray."""
    if key in tree.ray or key in tree.alike or key in tree.loaders or is_ray_service(tree.info[key]):
        return False
    return "ray" in tree.seen(key).modules


def _starter(tree: CandidateTree, raylet: ProcessKey) -> ProcessKey | None:
    """The program that started the raylet; None for a cluster's raylet, which ``ray start`` left behind."""
    for up in tree.above(raylet):
        record = tree.info.get(up)
        if record is not None and is_python(record) and not is_ray_service(record):
            return up
    return None


def _number(ray_job: str) -> list[str]:
    """A sort key of Ray's job ids: a number as hex digits, its lowest byte first (src/ray/common/id.cc, FromInt)."""
    return [ray_job[at : at + 2] for at in range(0, len(ray_job), 2)][::-1]


def _owners(tree: CandidateTree, workers: list[ProcessKey], programs: list[ProcessKey]) -> dict[ProcessKey, ProcessKey]:
    """Owners of the workers of one cluster: its only program, else by the id of Ray's job, in the order of starting."""
    uids = {tree.info[key].uid for key in workers}
    near = [key for key in programs if tree.info[key].uid in uids]
    ids = sorted({tree.seen(key).ids.ray for key in workers} - {""}, key=_number)
    if len(near) == 1:
        return dict.fromkeys(workers, near[0])
    by_id = dict(zip(ids, near, strict=True)) if len(ids) == len(near) else {}
    out: dict[ProcessKey, ProcessKey] = {}
    first: dict[str, ProcessKey] = {}
    for key in workers:
        ray = tree.seen(key).ids.ray
        out[key] = by_id.get(ray) or first.setdefault(ray, key)
    return out
