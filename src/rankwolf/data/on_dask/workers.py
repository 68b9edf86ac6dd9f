"""Who computes: the threads of this process, or the workers of a cluster that a ``distributed.Client`` knows.

Both answer two questions. ``call`` has a function map every partition to a :class:`Part`, and ``fetch`` or ``add``
bring answers to the client. On a cluster the parts are futures of Dask, and their lineage is Dask's: a block, the rows
before, and the function with what it shares. So Dask computes again what a dead worker held.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from rankwolf import __version__
from rankwolf.data.on_dask.chunks import Room
from rankwolf.data.on_dask.partition import Part, add_up, answer_of, make_block
from rankwolf.data.tasks import size_of
from rankwolf.ground.complaints import bad
from rankwolf.platform import available_memory

# How many sums one Dask task adds up.
FAN_IN = 8
# Bytes that every task of a pass may carry itself; more travels in a task of its own, from which the others take it.
SENT_ALONG = 2**20
# Seconds between two looks at the workers during a pass, and seconds without a working one before it is given up.
LOOK_EVERY, WITHOUT_WORKERS = 1.0, 60.0
# The largest share of the workers' memory that the matrix may take: Dask begins to write to the disk at 0.6.
MEMORY_SHARE = 0.6

# ``function(shared, block, *arguments of the partition)``
PartFunction = Callable[..., Part]


class Workers(ABC):
    """The blocks of one matrix, and what computes with them."""

    @abstractmethod
    def call(
        self, name: str, function: PartFunction, shared: Any, *arguments: Any, places: Sequence[int]
    ) -> list[Any]:
        """One part for each partition of ``places``; ``arguments`` are lists with an item for each of them."""

    @abstractmethod
    def fetch(self, parts: Sequence[Any]) -> list[Any]:
        """The answers of parts, brought here."""

    @abstractmethod
    def add(self, parts: Sequence[Any]) -> Any:
        """The sum of the answers of parts."""

    @abstractmethod
    def lazy(self, function: PartFunction, shared: Any, *arguments: Any) -> list[Any]:
        """One dask.delayed part for each partition; nothing is computed yet."""


class Threads(Workers):
    """Dask's threaded scheduler; parts are values. Blocks that do not fit the memory stay lazy, and are computed again
    in each pass.
    """

    def __init__(self, lazy_blocks: list[Any], size: int, room: Room) -> None:
        self._n_threads, self._blocks = room.threads, lazy_blocks
        if room.memory is None or size <= MEMORY_SHARE * room.memory:
            self._blocks = self._compute(lazy_blocks)

    def call(
        self, name: str, function: PartFunction, shared: Any, *arguments: Any, places: Sequence[int]
    ) -> list[Any]:
        """Computed at once."""
        return self._compute(self._calls(function, shared, arguments, places))

    def fetch(self, parts: Sequence[Any]) -> list[Any]:
        """They are here."""
        return list(map(answer_of, parts))

    def add(self, parts: Sequence[Any]) -> Any:
        """Added here."""
        return add_up(parts)

    def lazy(self, function: PartFunction, shared: Any, *arguments: Any) -> list[Any]:
        """One dask.delayed part for each partition; nothing is computed yet."""
        return self._calls(function, shared, arguments, range(len(self._blocks)))

    def _calls(
        self, function: PartFunction, shared: Any, arguments: Sequence[Any], places: Sequence[int]
    ) -> list[Any]:
        import dask

        own = zip(*arguments, strict=True) if arguments else [()] * len(places)
        return [
            dask.delayed(partial(_with_block, function, shared, part), pure=False)(self._blocks[k])
            for k, part in zip(places, own, strict=True)
        ]

    def _compute(self, calls: list[Any]) -> list[Any]:
        import dask

        return list(dask.compute(*calls, scheduler="threads", num_workers=self._n_threads))


def _with_block(function: PartFunction, shared: Any, arguments: Sequence[Any], block: Any) -> Part:
    return function(shared, block, *arguments)


def _itself(value: Any) -> Any:
    return value


class Cluster(Workers):
    """The workers of a ``distributed.Client``; parts are futures. A pass is one graph, and a tree of sums over it."""

    def __init__(self, client: Any, lazy_blocks: list[Any]) -> None:
        self._client, self._run, self._count = client, uuid4().hex[:8], 0
        self._blocks = client.compute(lazy_blocks)

    def call(
        self, name: str, function: PartFunction, shared: Any, *arguments: Any, places: Sequence[int]
    ) -> list[Any]:
        """Submitted; an error of a worker comes when the answers are fetched."""
        if len(places) * size_of(shared) > SENT_ALONG:
            shared = self._submit("shared", _itself, [shared])[0]
        blocks = [self._blocks[k] for k in places]
        return self._submit(name, function, [shared] * len(places), blocks, *arguments)

    def fetch(self, parts: Sequence[Any]) -> list[Any]:
        """Rows that a part has beside its answer are not sent."""
        return self._gathered(self._submit("answer", answer_of, parts))

    def add(self, parts: Sequence[Any]) -> Any:
        """Each task adds up a few sums, until few are left to be fetched."""
        sums = list(parts)
        while True:
            sums = self._submit("add", add_up, [sums[k : k + FAN_IN] for k in range(0, len(sums), FAN_IN)])
            if len(sums) <= FAN_IN:
                break
        return add_up(self._gathered(sums))

    def lazy(self, function: PartFunction, shared: Any, *arguments: Any) -> list[Any]:
        """One dask.delayed part for each partition; nothing is computed yet."""
        import dask

        own = zip(*arguments, strict=True) if arguments else [()] * len(self._blocks)
        call = dask.delayed(partial(function, shared), pure=False)
        return [call(block, *part) for block, part in zip(self._blocks, own, strict=True)]

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        import dask

        self._count += 1
        count = len(arguments[0])
        keys = [f"rankwolf_{name}-{self._run}-{self._count}-{k}" for k in range(count)]
        # Rows that are sent travel in the graph on purpose: what was scattered could not be computed again.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return list(self._client.map(function, *arguments, key=keys, pure=False))

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """The results of futures. An error where workers, or the scheduler, are gone and do not come back."""
        import asyncio  # whoever has a client has it loaded; nobody else waits for it

        from distributed import CancelledError, KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError

        loop, since = self._client.loop.asyncio_loop, time.monotonic()
        fetched = asyncio.run_coroutine_threadsafe(self._client.gather(futures, asynchronous=True), loop)
        try:
            while True:
                try:
                    return list(fetched.result(LOOK_EVERY))
                except TimeoutError:
                    if fetched.done():
                        raise
                since = self._look(since)
        except (CancelledError, FutureCancelledError, CommClosedError) as error:
            raise _gone() from error
        except KilledWorker as error:
            raise RuntimeError(
                f"Dask workers died of the same task again and again ({error.task}), most likely because their memory "
                "was full. Start workers with more memory, or give smaller chunks."
            ) from error
        except MemoryError as error:
            raise MemoryError(
                f"A Dask worker had no memory left ({error}). Start workers with more memory, or give smaller chunks."
            ) from error
        finally:
            fetched.cancel()

    def _look(self, since: float) -> float:
        """The last time at which all workers worked: now, or ``since``. An error where that is too long ago."""
        if self._client.status != "running":
            raise _gone()
        now = time.monotonic()
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except OSError:  # the scheduler does not answer
            return since
        states = [worker["status"] for worker in workers]
        if "running" in states and "paused" not in states:
            return now
        if now - since <= WITHOUT_WORKERS:
            return since
        paused = "A Dask worker has been paused, because its memory is full"
        raise RuntimeError(
            f"{paused if states else 'Every Dask worker is gone'}, for {WITHOUT_WORKERS:.0f} seconds. Start workers "
            "with more memory, or more of them; a run with checkpoint= goes on with resume=True."
        )


def _gone() -> RuntimeError:
    """The client may find a new scheduler, but what the workers held is lost."""
    return RuntimeError(
        "The Dask scheduler is gone, or the client is closed, and with it what the workers held. Start it "
        "again; a run with checkpoint= goes on with resume=True."
    )


def client_of(X: Any) -> Any:
    """The ``distributed.Client`` that would compute this array; None where Dask would compute it in this process."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(collections=[X]), "__self__", None)
    return owner if type(owner).__module__.startswith("distributed") else None


def check_versions(client: Any) -> None:
    """Raise where a worker has another version of this package, or none.

    Dask would not say so: a worker that cannot import what a task names ends, and so does the next one.
    """
    # As text, because a function of this package could not be sent to a worker that does not have the package.
    asked = client.run(eval, "__import__('rankwolf').__version__", on_error="return")
    for worker, found in asked.items():
        if found != __version__:
            what = f"none ({found})" if isinstance(found, Exception) else found
            raise RuntimeError(
                f"Every Dask worker must have this version of Rankwolf, {__version__}. The worker {worker} has {what}. "
                "Install it there: pip install 'rankwolf[dask]'."
            )


def room_of(client: Any, n_threads: int, max_memory: int | None) -> Room:
    """Threads and memory of the cluster, or of this process, and how large a partition may be."""
    if client is None:
        memory = available_memory() if max_memory is None else max_memory
        # In one process nothing crosses a network: rechunking is cheap where the matrix fits.
        return Room(n_threads, memory, max(memory // (4 * n_threads), 2**20), int(MEMORY_SHARE * memory))
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        try:
            client.wait_for_workers(1, timeout=WITHOUT_WORKERS)
        except TimeoutError:
            raise RuntimeError(
                f"No Dask worker came within {WITHOUT_WORKERS:.0f} seconds. Start workers first."
            ) from None
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    check_versions(client)
    threads = sum(worker["nthreads"] for worker in workers)
    limits = [worker["memory_limit"] for worker in workers]
    if not all(limits):
        return Room(threads, None, 8 * 2**30)
    smallest = min(worker["memory_limit"] // (4 * worker["nthreads"]) for worker in workers)
    return Room(threads, sum(limits), max(smallest, 2**20))


class LazyBlock(NamedTuple):
    """A partition that Dask has not computed yet, with its mask, and the shape and type that the data must have."""

    data: Any
    observed: Any
    shape: tuple[int, int]
    dtype: np.dtype[Any]


def make_workers(client: Any, lazy: list[LazyBlock], size: int, room: Room) -> Workers:
    """The threads or workers that keep the partitions. On a cluster, their blocks begin to be computed.

    An error where the matrix takes more than ``MEMORY_SHARE`` of the workers' memory; in one process it stays lazy.
    """
    import dask

    run = uuid4().hex[:8]
    blocks = [
        dask.delayed(make_block, pure=False)(
            part.data, part.observed, part.shape, part.dtype, dask_key_name=f"rankwolf_block-{run}-{k}"
        )
        for k, part in enumerate(lazy)
    ]
    if client is None:
        return Threads(blocks, size, room)
    if room.memory is not None and size > MEMORY_SHARE * room.memory:
        most = f"at most {MEMORY_SHARE * room.memory / 1e9:.3g} GB, {MEMORY_SHARE:.0%} of the workers' memory"
        remedy = "Start more workers, or give the matrix in a narrower type."
        raise bad("X", most, f"{size / 1e9:.3g} GB", remedy=remedy)
    return Cluster(client, blocks)
