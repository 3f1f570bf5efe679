"""Runs one configuration of the user's loader in the user's Python (3.8 or newer).

Run it as ``python -c SOURCE REQUEST``, where REQUEST is a JSON object. It writes JSON objects, one per line, to its
original standard output. The output of the user's code goes to standard error. After the last object, the process waits
until its standard input closes.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, Callable, Iterator

REPORT_EVERY_S = 0.1
LONGEST_TEXT = 8000
MOST_STAGES = 64
DEEPEST_PART = 4
"""The samples of a batch are counted in its parts, down to a part that is nested in this many lists and dicts."""
MOST_FIELDS = 8
"""A batch that is a longer list than this is a list of samples, not of fields."""


class RefusedError(Exception):
    """The factory cannot be measured."""


class EmptyError(RefusedError):
    """This configuration yields no batch, but another configuration may."""


class MessageWriter:
    """Writes messages to the parent process, one per line."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._pid = os.getpid()

    def send(self, **fields: Any) -> None:
        """Write one message. Does nothing in a forked worker."""
        if os.getpid() == self._pid:
            os.write(self._out, json.dumps(fields).encode() + b"\n")


def prepare(folder: str, parent: int) -> None:
    """Prepare this process: it dies with its parent, prints its stack on SIGUSR1 and imports from the user's folder."""
    import ctypes
    import faulthandler
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() == 1 != parent:  # the parent ended before prctl, so no signal comes
        sys.exit(1)
    end_workers_with_parent()
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
    # The empty entry is the folder in which this process was started.
    sys.path[:] = [folder, *(place for place in sys.path if place and place != folder)]
    os.chdir(folder)


def end_workers_with_parent() -> None:
    """Start a process that ends the workers after the parent (iotop-ai) has ended.

    The kernel ends only the loader's main process with its parent. The new process is a child of init, so that it does
    not count as a worker. It is in the workers' process group.
    """
    child_pid, loader_pid = os.fork(), os.getppid()  # in the child, getppid() is the loader's process
    if child_pid:
        os.waitpid(child_pid, 0)
        return
    try:
        if not os.fork():
            end_workers_after(loader_pid)
    finally:
        os._exit(0)


def end_workers_after(loader_pid: int) -> None:
    """Wait until the parent has closed the pipe or ended, then until the loader has ended; end the process group."""
    import select
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.chdir("/")
    os.closerange(1, 256)  # the parent reads the outputs until no process has them open
    poll = select.poll()
    poll.register(0, 0)  # reports only that the pipe is closed
    poll.poll()
    while is_alive(loader_pid):
        time.sleep(0.1)
    os.killpg(0, signal.SIGTERM)
    time.sleep(1.0)  # multiprocessing's tracker ignores SIGTERM, and removes the semaphores of the other processes
    os.killpg(0, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie counts as ended, because its parent may never reap it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def arguments(request: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a DataLoader for this configuration."""
    workers = request["workers"]
    out: dict[str, Any] = {"num_workers": workers, "batch_size": request["batch_size"]}
    if request["pin"]:
        out["pin_memory"] = True
    if workers:
        out["persistent_workers"] = True
        if request["prefetch"] is not None:
            out["prefetch_factor"] = request["prefetch"]
        if request["start"]:
            out["multiprocessing_context"] = request["start"]
    return out


def call_factory(factory: Any, request: dict[str, Any]) -> tuple[Any, list[str]]:
    """Call the factory; return its result and the names of the arguments that it took. Raises RefusedError."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    values = {name: value for name, value in arguments(request).items() if takes_all or name in names}
    if "num_parallel_calls" in names:
        values["num_parallel_calls"] = request["workers"] or None
    if "prefetch" in names and request["prefetch"] is not None:
        values["prefetch"] = request["prefetch"]
    if "cycle_length" in names and request["interleave"] is not None:
        values["cycle_length"] = request["interleave"]
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and parameter.name not in values
    ]
    if missing:
        raise RefusedError("it needs the argument " + ", ".join(missing) + ", which this configuration does not give")
    return factory(**values), sorted(values)


def is_instance_of(value: Any, module: str, *path: str) -> bool:
    """Whether an object is an instance of the class at ``path`` in a module. Does not import the module."""
    class_: Any = sys.modules.get(module)
    for name in path:
        class_ = getattr(class_, name, None)
    return class_ is not None and isinstance(value, class_)


def reads_from_data_loader(result: Any) -> bool:
    """Whether an object is an IterableDataset that holds a DataLoader, such as webdataset's WebLoader."""
    if not is_instance_of(result, "torch.utils.data", "IterableDataset"):
        return False
    parts = vars(result)
    stages = parts.get("pipeline")
    held = [*parts.values(), *(stages if isinstance(stages, (list, tuple)) else ())]
    return any(is_instance_of(part, "torch.utils.data", "DataLoader") for part in held)


def loader_of(result: Any, argument_names: list[str], request: dict[str, Any]) -> tuple[Any, str, list[str]]:
    """Return an iterable of batches, its kind, and the names of the arguments in use. Raises RefusedError.

    result: the result of the factory. argument_names: the names of the arguments that the factory took. The kind is
    "torch", "tensorflow" or "iterable".
    """
    if is_instance_of(result, "torch.utils.data", "DataLoader"):
        if "num_workers" not in argument_names:
            raise RefusedError("it returns a DataLoader but takes no num_workers; return the Dataset, or take **kwargs")
        return result, "torch", argument_names
    if is_instance_of(result, "tensorflow", "data", "Dataset"):
        if "num_parallel_calls" not in argument_names:
            raise RefusedError("it returns a tf.data.Dataset but takes no num_parallel_calls")
        return result, "tensorflow", argument_names
    if "num_workers" in argument_names and reads_from_data_loader(result):
        return result, "iterable", argument_names
    is_map_style = hasattr(result, "__getitem__") and hasattr(result, "__len__")
    if is_instance_of(result, "torch.utils.data", "Dataset") or (is_map_style and "num_workers" not in argument_names):
        try:
            from torch.utils.data import DataLoader, IterableDataset  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise RefusedError("it returns a Dataset, but torch does not load in this Python") from None
        keywords = {**arguments(request), "shuffle": not isinstance(result, IterableDataset)}
        return DataLoader(result, **keywords), "torch", sorted(name for name in keywords if name != "shuffle")
    if hasattr(result, "__iter__") and "num_workers" in argument_names:
        return result, "iterable", argument_names
    expected = "expected a Dataset, or, from a factory that takes num_workers, an iterable"
    raise RefusedError("it returns " + type(result).__name__ + "; " + expected)


def stages_of(dataset: Any) -> list[str]:
    """Return the stages of a tf.data.Dataset, the last one first: "Prefetch", "Batch", "ParallelMap"."""
    out: list[str] = []
    todo = [dataset]
    while todo and len(out) < MOST_STAGES:
        node = todo.pop()
        name = type(node).__name__.strip("_").split("Dataset")[0]
        if name:
            out.append(name)
        todo += node._inputs()
    return out


def epoch_bytes_of(dataset: Any, batch_size: int) -> Any:
    """Return the bytes of all batches of a tf.data.Dataset; None if its element_spec or length leaves them unknown."""
    batches, size = int(dataset.cardinality()), 0
    for spec in sys.modules["tensorflow"].nest.flatten(dataset.element_spec):
        shape = list(spec.shape)
        shape[:1] = [batch_size if first is None else first for first in shape[:1]]
        if None in shape or not spec.dtype.size:
            return None
        count = 1
        for length in shape:
            count *= length
        size += count * spec.dtype.size
    return batches * size if batches > 0 and size else None


def facts_of(loader: Any, kind: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the stages and the epoch's bytes of a tf.data pipeline; [] and None if they are unknown."""
    out: dict[str, Any] = {"stages": [], "epoch_bytes": None}
    if kind == "tensorflow":
        try:
            out["stages"] = stages_of(loader)
            out["epoch_bytes"] = epoch_bytes_of(loader, request["batch_size"])
        except Exception:  # a version of TensorFlow may raise any error
            pass
    return out


def sample_counter(
    loader: Any, kind: str, argument_names: list[str], stages: list[str], request: dict[str, Any]
) -> Callable[[Any], int]:
    """Return the function that counts the samples in a batch of this loader.

    kind, argument_names: as returned by ``loader_of``. stages: as in ``facts_of``.
    """
    sampler = getattr(loader, "batch_sampler", None)
    sizes = [getattr(owner, "batch_size", None) for owner in (loader, sampler)]
    takes_size = "batch_size" in argument_names
    if takes_size and kind != "torch":  # a DataLoader has the size that it uses, which need not be the requested one
        sizes.insert(0, request["batch_size"])
    if kind == "tensorflow":
        makes_batches = takes_size or not stages or any("Batch" in stage for stage in stages)
    else:
        makes_batches = sampler is not None or getattr(loader, "batch_size", 0) is not None
    if not makes_batches:
        return samples_in_item
    size = next((size for size in sizes if isinstance(size, int) and size > 0), None)
    return lambda batch: samples_in(batch, size)


def samples_in_item(item: Any) -> int:
    """Return the number of samples in an item of a loader that makes no batches; the dataset itself may yield batches.

    The arrays of a batch have the same first dimension, and some have more dimensions than others, as pictures and
    their labels. Any other item is one sample; so is a picture of 3 dimensions with its mask of 2.
    """
    shapes = list(shapes_in(item, 0))
    dimensions = {len(shape) for shape in shapes}
    if len({shape[:1] for shape in shapes}) != 1 or len(dimensions) == 1 or dimensions == {2, 3}:
        return 1
    return int(shapes[0][0]) or 1


def shape_of(part: Any) -> tuple[Any, ...] | None:
    """Return the shape of an array; None for other objects, and for nested tensors of torch, which have none."""
    try:
        shape = getattr(part, "shape", None)
        return None if shape is None else tuple(shape)
    except (RuntimeError, TypeError, ValueError):
        return None


def shapes_in(part: Any, depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield the shape of each array in a part of an item. A number has the shape (), a list of numbers or texts (n,).

    depth: the number of lists and dicts around the part.
    """
    shape = shape_of(part)
    if shape is not None:
        yield shape
    elif isinstance(part, (int, float)):
        yield ()
    elif depth < DEEPEST_PART and isinstance(part, Mapping):
        for item in part.values():
            yield from shapes_in(item, depth + 1)
    elif depth < DEEPEST_PART and isinstance(part, (list, tuple)):
        if part and all(isinstance(item, (int, float, str, bytes)) for item in part):
            yield (len(part),)
        else:
            for item in part:
                yield from shapes_in(item, depth + 1)


def samples_in(batch: Any, batch_size: int | None) -> int:
    """Return the number of samples in one batch, at least 1 and at most the batch size, which is None if unknown.

    The number is the first dimension of the batch's first array, or the length of the batch's list. A list of lists may
    hold a list for each sample, or a list for each field, as tuple(zip(*batch)) does. If the batch shows no number, and
    is or holds an opaque object such as torch_geometric's Batch or a dataclass, the number is the batch size.
    """
    count = sample_count(batch, batch_size, 0)
    if count is None and (is_opaque(batch) or holds_opaque(batch)):
        count = batch_size
    return count or 1


def is_opaque(part: Any) -> bool:
    """Whether a part is an object whose content is unknown: not an array, number, text, list or mapping."""
    plain = (int, float, str, bytes, list, tuple, Mapping)
    return part is not None and not isinstance(part, plain) and shape_of(part) is None


def holds_opaque(part: Any) -> bool:
    """Whether a list or mapping directly holds an opaque object."""
    items = part.values() if isinstance(part, Mapping) else part
    return isinstance(part, (list, tuple, Mapping)) and any(is_opaque(item) for item in items)


def sample_count(part: Any, batch_size: int | None, depth: int) -> int | None:
    """Return the number of samples in a part of a batch; None if the part does not show it, as a string does not.

    depth: the number of lists and dicts around the part.
    """
    shape = shape_of(part)
    if shape is not None:
        return at_most(int(shape[0]), batch_size) if len(shape) else None
    if depth == DEEPEST_PART:
        return None
    if isinstance(part, Mapping):
        return next(filter(None, (sample_count(item, batch_size, depth + 1) for item in part.values())), None)
    if not isinstance(part, (list, tuple)) or not part:
        return None
    first, length = part[0], at_most(len(part), batch_size)
    if not depth and len(part) != batch_size and holds_opaque(part):  # fields, of which only some show the number
        ordered = sorted(part, key=lambda item: isinstance(item, (list, tuple)))
        counts = (sample_count(item, batch_size, depth + 1) for item in ordered)
        return next(filter(None, counts), length if len(part) > MOST_FIELDS else batch_size or length)
    is_array, is_mapping = shape_of(first) is not None, isinstance(first, Mapping)
    if len(part) == batch_size or not (is_array or is_mapping or isinstance(first, (list, tuple))):
        return length
    if depth and is_mapping:
        return length
    if depth and is_array:
        return max(length, sample_count(first, batch_size, depth) or 1)
    return next(filter(None, (sample_count(item, batch_size, depth + 1) for item in part)), length)


def at_most(count: int, batch_size: int | None) -> int:
    """Return the count, but not more than a known batch size."""
    return count if batch_size is None else min(count, batch_size)


def batches_of(loader: Any, one_epoch: bool) -> Iterator[Any]:
    """Yield the batches of epoch after epoch. A loader that can be read only once ends after one epoch.

    one_epoch: whether to stop after one epoch, because the next epoch would be read from memory. Raises EmptyError if
    there is no batch.
    """
    got_batch = True
    got_any = False
    while got_batch:
        got_batch = False
        for batch in loader:
            got_batch = got_any = True
            yield batch
        if got_any and one_epoch:
            return
    if not got_any:
        raise EmptyError("its loader yields no batch")


def measure(loader: Any, request: dict[str, Any], count_samples: Callable[[Any], int], messages: MessageWriter) -> None:
    """Read batches for the requested time and send the figures.

    count_samples: returns the number of samples in a batch. If time allows, the figures begin after a warm-up of one
    batch per worker.
    """
    warm_up_batches = max(1, request["workers"])
    start = time.monotonic()
    marks = []  # (time, batches, samples) at the first batch and at the end of the warm-up
    count = total = 0
    reported = now = start
    for batch in batches_of(loader, request["one_epoch"]):
        now = time.monotonic()
        count += 1
        total += count_samples(batch)
        del batch
        if count in (1, warm_up_batches):
            marks.append((now, count, total))
            messages.send(message="steady", first_batch_s=marks[0][0] - start, batches=count)
        elif now - reported >= REPORT_EVERY_S:
            reported = now
            messages.send(message="batch", batches=count, samples=total)
        # Reads at least two batches, but does not wait forever if the workers' first batches take long.
        if count > warm_up_batches and now - marks[-1][0] >= request["seconds"]:
            break
        if count > 1 and now - marks[0][0] >= 2 * request["seconds"]:
            break
    # The figures begin at the last mark that at least one batch follows.
    begin = next((mark for mark in reversed(marks) if mark[1] < count), (start, 0, 0))
    messages.send(
        message="done",
        batches=count - begin[1],
        samples=total - begin[2],
        seconds=now - begin[0],
        first_batch_s=marks[0][0] - start,
    )


def run(request: dict[str, Any], messages: MessageWriter) -> None:
    """Import the module, build the loader and read it. Each step is announced, so that a hang can be located."""
    import multiprocessing

    messages.send(message="phase", phase="import")
    factory: Any = importlib.import_module(request["module"])
    for name in request["factory"].split("."):
        if not hasattr(factory, name):
            raise RefusedError(request["module"] + " has no " + request["factory"])
        factory = getattr(factory, name)
    if not callable(factory):
        raise RefusedError(request["factory"] + " is not a function or class")
    if request["start"]:
        multiprocessing.set_start_method(request["start"], force=True)
    messages.send(message="phase", phase="build")
    loader, kind, argument_names = loader_of(*call_factory(factory, request), request)
    cuda = False
    if "torch" in sys.modules:
        cuda = bool(sys.modules["torch"].cuda.is_initialized())
    start = multiprocessing.get_start_method()
    facts = facts_of(loader, kind, request)
    messages.send(message="built", kind=kind, start=start, applied=argument_names, cuda=cuda, **facts)
    messages.send(message="phase", phase="start")
    measure(loader, request, sample_counter(loader, kind, argument_names, facts["stages"], request), messages)


def shorten(text: str) -> str:
    """Return a text of at most LONGEST_TEXT characters: its beginning and its end."""
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else text[:half] + text[-half:]


def main() -> None:
    """Run the request. The last message is "done", "refused" or "error"."""
    request = json.loads(sys.argv[1])
    messages = MessageWriter()
    prepare(request["folder"], request["parent"])
    try:
        run(request, messages)
    except RefusedError as error:
        messages.send(message="refused", text=str(error), empty=isinstance(error, EmptyError))
    except BaseException as error:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        text, name = shorten(str(error)), type(error).__name__
        messages.send(message="error", type=name, text=text, trace=shorten(trace))
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
