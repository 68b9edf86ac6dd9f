"""Who obeys orders: the threads of this process, or the workers of a cluster that a ``distributed.Client`` knows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from rankwolf import __version__
from rankwolf.data.on_dask.chunks import Room, first_rows
from rankwolf.data.on_dask.partition import (
    Behind,
    Block,
    Order,
    PartitionRows,
    Work,
    add_up,
    make_block,
    obey,
    start_rows,
)
from rankwolf.data.tasks import size_of
from rankwolf.ground.complaints import bad
from rankwolf.platform import available_memory

# How many sums one Dask task adds up.
FAN_IN = 8
# Bytes that a pass may send inside its Dask tasks; more is put on a worker first, which takes some milliseconds.
SENT_ALONG = 2**20
# Seconds between two looks at the workers during a pass, and seconds without a working one before it is given up.
LOOK_EVERY, WITHOUT_WORKERS = 1.0, 60.0
# The largest share of the workers' memory that the matrix may take: Dask begins to write to the disk at 0.6.
MEMORY_SHARE = 0.6

Parts = Sequence[Any] | None


class Workers(ABC):
    """The partitions of one matrix, each with its block and its rows; ``first`` numbers their first rows."""

    def __init__(self, heights: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.heights, self.first, self.dtype = heights, first_rows(heights), dtype

    @abstractmethod
    def send(
        self, name: str, work: Work, order: Order, parts: Parts, places: Sequence[int], add: bool
    ) -> Any:
        """Have the partitions ``places`` obey; returns a list of their answers, or with ``add`` their sum.

        Answers, or the sum, may be :class:`Behind`.
        """

    @abstractmethod
    def lazy(self, work: Work, order: Order, parts: Parts) -> list[Any]:
        """One dask.delayed answer for each partition."""


class Threads(Workers):
    """Dask's threaded scheduler. Blocks that do not fit the memory stay lazy, and are computed again in each pass."""

    def __init__(
        self, lazy_blocks: list[Any], heights: tuple[int, ...], dtype: np.dtype[Any], room: Room
    ) -> None:
        super().__init__(heights, dtype)
        self._n_threads = room.threads
        self._blocks, self._rows = lazy_blocks, [PartitionRows(k) for k in range(len(heights))]

    def load(self, size: int, room: Room) -> None:
        """Compute the blocks once, where they fit."""
        if room.memory is None or size <= MEMORY_SHARE * room.memory:
            self._blocks = self._compute(self._blocks)

    def send(
        self, name: str, work: Work, order: Order, parts: Parts, places: Sequence[int], add: bool
    ) -> Any:
        """Obey in threads of this process, whose rows are never behind."""
        answers = self._compute(self._calls(work, order, parts, places))
        return add_up(answers) if add else answers

    def lazy(self, work: Work, order: Order, parts: Parts) -> list[Any]:
        """One dask.delayed answer for each partition; nothing is computed yet."""
        return self._calls(work, order, parts, range(len(self.first)))

    def _calls(self, work: Work, order: Order, parts: Parts, places: Sequence[int]) -> list[Any]:
        import dask

        def call(k: int) -> Any:
            part = None if parts is None else parts[k]
            ready = partial(obey, self._rows[k], work, part, self.first[k], order=order, dtype=self.dtype)
            return dask.delayed(ready, pure=False)(self._blocks[k])

        return [call(k) for k in places]

    def _compute(self, calls: list[Any]) -> list[Any]:
        import dask

        return list(dask.compute(*calls, scheduler="threads", num_workers=self._n_threads))


class _LostError(Exception):
    """A worker, or the scheduler, is gone, and with it something that was sent or asked for."""


class Cluster(Workers):
    """The workers of a ``distributed.Client``. An order for a partition goes to the worker that has its rows."""

    def __init__(
        self, client: Any, lazy_blocks: list[Any], heights: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        super().__init__(heights, dtype)
        self._client, self._run, self._count = client, uuid4().hex[:8], 0
        self._blocks = client.compute(lazy_blocks)
        self._rows = [
            client.submit(start_rows, k, block, key=f"rankwolf_rows-{self._run}-{k}", pure=False)
            for k, block in enumerate(self._blocks)
        ]
        self._homes: list[str] = []
        self._kept: list[Any] = []
        self._paused: dict[str, float] = {}

    def send(
        self, name: str, work: Work, order: Order, parts: Parts, places: Sequence[int], add: bool
    ) -> Any:
        """One Dask task for each partition, and with ``add`` a tree of sums over them; Behind if a worker was lost."""
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        try:
            self._find_homes()
            answers = self._submit(name, work, order, parts, places)
            while add and len(answers) > FAN_IN:
                answers = [self._add(answers[k : k + FAN_IN]) for k in range(0, len(answers), FAN_IN)]
            found = self._gathered(answers) if self._finished(answers) else None
            if found is None:
                raise _LostError
        except (CancelledError, CommClosedError, TimeoutError, _LostError):
            # A worker is gone, with what was sent to it; an error if the scheduler itself is gone.
            self._check_scheduler()
            self._homes = []
            return Behind(()) if add else [Behind(())]
        self._paused = {}  # the order was obeyed, so no worker is stuck
        return add_up(found) if add else found

    def lazy(self, work: Work, order: Order, parts: Parts) -> list[Any]:
        """One dask.delayed answer for each partition. Answers from rows, which may change, are made now and kept."""
        import dask

        if not order.rows:
            call = dask.delayed(partial(obey, order=order, dtype=self.dtype), pure=False)
            return [
                call(self._rows[k], work, None if parts is None else parts[k], self.first[k], self._blocks[k])
                for k in range(len(self.first))
            ]
        self._find_homes()
        answers = self._submit("fetch", work, order, parts, range(len(self.first)))
        self._kept += answers  # a graph that is being sent does not keep futures alive
        return [dask.delayed(answer) for answer in answers]

    def _submit(self, name: str, work: Work, order: Order, parts: Parts, places: Sequence[int]) -> list[Any]:
        self._count += 1
        own = {k: None if parts is None else parts[k] for k in places}
        if len(places) * size_of(vars(work)) + size_of(own) > SENT_ALONG:
            # To one worker; the others fetch it from each other. With broadcast=True the scheduler makes the copies,
            # and never ends where one of the workers dies meanwhile (distributed 2026.8).
            shared = self._scatter(work, None)
            for k in places:
                if size_of(own[k]) > SENT_ALONG // len(places):
                    own[k] = self._scatter(own[k], [self._homes[k]])
        else:
            shared = work
        answers: dict[int, Any] = {}
        # One graph for each worker, not for each partition: a graph costs the scheduler as much as a task.
        for home in dict.fromkeys(self._homes[k] for k in places):
            here = [k for k in places if self._homes[k] == home]
            futures = self._client.map(
                partial(obey, order=order, dtype=self.dtype),
                [self._rows[k] for k in here],
                [shared] * len(here),
                [own[k] for k in here],
                [self.first[k] for k in here],
                [self._blocks[k] for k in here],
                key=[f"rankwolf_{name}-{self._run}-{self._count}-{k}" for k in here],
                workers=[home],
                pure=False,
            )
            answers.update(zip(here, futures, strict=True))
        return [answers[k] for k in places]

    def _scatter(self, data: Any, homes: list[str] | None) -> Any:
        try:
            return self._client.scatter([data], workers=homes, hash=False, timeout=WITHOUT_WORKERS)[0]
        except (OSError, ValueError) as error:  # the worker that should take it is gone, or all are
            raise _LostError from error

    def _add(self, answers: list[Any]) -> Any:
        self._count += 1
        return self._client.submit(add_up, answers, key=f"rankwolf_add-{self._run}-{self._count}", pure=False)

    def _find_homes(self) -> None:
        """Ask on which worker each partition's rows are: once, and again after a worker was lost."""
        if self._homes:
            return
        from distributed import wait

        done = 0
        while True:
            try:
                wait(self._rows, timeout=LOOK_EVERY)
            except TimeoutError:
                done, before = sum(future.done() for future in self._rows), done
                if done > before:
                    self._paused = {}  # a paused worker does not stop the others
                self._look()
            for future in self._rows:
                _raise_if_failed(future)
            where = self._asked(partial(self._client.who_has, self._rows))
            homes = [next(iter(where.get(future.key, ())), "") for future in self._rows]
            if all(homes):
                self._homes = homes
                return
            self._look()
            time.sleep(0.05)

    def _finished(self, answers: list[Any]) -> bool:
        """Wait until all answers are there; False when a worker went away meanwhile."""
        from distributed import wait

        while True:
            try:
                wait(answers, timeout=LOOK_EVERY)
            except TimeoutError:
                if not set(self._homes) <= self._look():
                    return False
                continue
            for answer in answers:
                if answer.status == "cancelled" or answer.status == "lost":
                    return False
                _raise_if_failed(answer)
            return True

    def _gathered(self, answers: list[Any]) -> Any:
        """The answers, fetched to the client; None when a worker went away first.

        Dask would want to compute lost answers once more, only on the worker that is gone, and wait for ever.
        """
        import asyncio  # whoever has a client has it loaded; nobody else waits for it

        loop = self._client.loop.asyncio_loop
        fetched = asyncio.run_coroutine_threadsafe(self._client.gather(answers, asynchronous=True), loop)
        try:
            while True:
                try:
                    return fetched.result(LOOK_EVERY)
                except TimeoutError:
                    if fetched.done():
                        raise
                if not set(self._homes) <= self._look():
                    return None
        finally:
            fetched.cancel()

    def _look(self) -> set[str]:
        """The addresses of all workers. An error where none has been running for ``WITHOUT_WORKERS`` seconds."""
        started = time.monotonic()
        while True:
            self._check_scheduler()
            workers = self._asked(partial(self._client.scheduler_info, n_workers=-1))["workers"]
            status = {address: worker["status"] for address, worker in workers.items()}
            # Until the partitions have their homes, any worker may be about to get one.
            self._count_pauses([home for home in set(self._homes or status) if status.get(home) == "paused"])
            if "running" in status.values():
                return set(workers)
            if time.monotonic() - started > WITHOUT_WORKERS:
                state = (
                    "Every Dask worker is gone"
                    if not workers
                    else "Every Dask worker has stopped working, most likely because its memory is full"
                )
                raise RuntimeError(
                    f"{state}, for {WITHOUT_WORKERS:.0f} seconds. Start workers with more memory, or more of them; "
                    "a run with checkpoint= goes on with resume=True."
                )
            time.sleep(min(LOOK_EVERY, WITHOUT_WORKERS / 10))

    def _count_pauses(self, paused: list[str]) -> None:
        """Raise where a worker with a partition has been paused for long: Dask pauses it when its memory is full."""
        now = time.monotonic()
        self._paused = {home: self._paused.get(home, now) for home in paused}
        if any(now - since > WITHOUT_WORKERS for since in self._paused.values()):
            raise RuntimeError(
                f"A Dask worker has been paused for {WITHOUT_WORKERS:.0f} seconds, because its memory is full. Start "
                "workers with more memory, or more of them; a run with checkpoint= goes on with resume=True."
            )

    def _check_scheduler(self) -> None:
        """Raise where the client has no scheduler: it may find a new one, but what the workers held is lost."""
        if self._client.status != "running":
            raise RuntimeError(
                "The Dask scheduler is gone, or the client is closed, and with it what the workers held. Start it "
                "again; a run with checkpoint= goes on with resume=True."
            )

    @staticmethod
    def _asked(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except OSError as error:  # the scheduler does not answer
            raise _LostError from error


def _raise_if_failed(future: Any) -> None:
    from distributed import KilledWorker

    if future.status != "error":
        return
    error = future.exception()
    if isinstance(error, KilledWorker):
        raise RuntimeError(
            f"Dask workers died of the same task again and again ({future.key}), most likely because their memory was "
            "full. Start workers with more memory, or give smaller chunks."
        ) from error
    if isinstance(error, MemoryError):
        raise MemoryError(
            f"A Dask worker had no memory left ({error}). Start workers with more memory, or give smaller chunks."
        ) from error
    raise error


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
        client.wait_for_workers(1, timeout=WITHOUT_WORKERS)
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


def make_workers(
    client: Any,
    lazy: list[LazyBlock],
    heights: tuple[int, ...],
    dtype: np.dtype[Any],
    size: int,
    room: Room,
) -> Workers:
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
        threads = Threads(blocks, heights, dtype, room)
        threads.load(size, room)
        return threads
    if room.memory is not None and size > MEMORY_SHARE * room.memory:
        most = f"at most {MEMORY_SHARE * room.memory / 1e9:.3g} GB, {MEMORY_SHARE:.0%} of the workers' memory"
        remedy = "Start more workers, or give the matrix in a narrower type."
        raise bad("X", most, f"{size / 1e9:.3g} GB", remedy=remedy)
    return Cluster(client, blocks, heights, dtype)


__all__ = [
    "Behind",
    "Block",
    "Cluster",
    "LazyBlock",
    "Threads",
    "Workers",
    "client_of",
    "make_workers",
    "room_of",
]
