"""The engine ``ray``: calls go to the nodes of a cluster, a bounded number at a time, and what is lost with a process is done again.

The driver, this process, alone decides what is done and writes what joins results. A worker does a whole call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from attnaudit.core.errors import RunError
from attnaudit.core.progress import WITHIN, Progress
from attnaudit.runner.claim import Check, claimed
from attnaudit.runner.engine import Call, Done, Engine
from attnaudit.runner.ray_cluster import OPERATION, Nodes, connected
from attnaudit.runner.ray_worker import Answer, Order, await_path, files_in, perform, put_files
from attnaudit.runner.store import BusyError, alone

AHEAD = 2  # calls that are submitted for each CPU of the cluster: while one is done the next waits there
DEFERRED = 256  # calls that wait for others, while later ones are looked at
TRIES = 4  # of a call whose worker ends without an answer
PAUSE = 1.0  # seconds between two looks at the progress of workers
BUSY = (
    3.0,
    30,
)  # seconds until a call is tried again whose folder another process holds, and how often: a worker lives on for a while


@dataclass(frozen=True)
class RayCluster:
    """The cluster at ``address``, HOST:PORT of its head; without one a cluster on this machine alone, for as long as the command runs.

    ``unshared``: its nodes share no folder, and files go through the object store.
    """

    address: str | None = None
    unshared: bool = False
    at_once: int = 1

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Engine]:
        folder = folder.absolute()
        with claimed(folder) as check, connected(self.address) as nodes:
            nodes.check(None if self.unshared else folder)
            yield Connected(nodes, folder, self.unshared, check)

    def device(self, asked: str) -> str | None:
        return None

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        raise RuntimeError("open the cluster first")


@dataclass(frozen=True)
class Connected:
    """A cluster that can be used, for calls that write below ``folder``, which is this driver's own."""

    nodes: Nodes
    folder: Path
    unshared: bool
    check: Check

    @property
    def at_once(self) -> int:
        return self.nodes.cpus

    def device(self, asked: str) -> str | None:
        return self.nodes.device(asked)

    def opened(self, folder: Path) -> AbstractContextManager[Engine]:
        return nullcontext(self)  # a folder within the one that is open

    @cached_property
    def perform(self) -> Any:
        """What workers do, which is sent to the head once."""
        import ray

        return ray.remote(perform)

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        flight = _Flight(self, iter(calls), progress, total)
        try:
            yield from flight.done()
        finally:
            flight.cancel()


@dataclass(frozen=True)
class _Try:
    """A call on its way: which ``cpus`` it is given, how often its worker was ``lost`` or its folder ``busy``, ``when`` it may be tried."""

    call: Call
    cpus: int = 1
    lost: int = 0
    busy: int = 0
    when: float = 0.0


@dataclass
class _Flight:
    """The calls of one `Connected.do`."""

    cluster: Connected
    source: Iterator[Call]
    progress: Progress
    total: int
    submitted: dict[Any, _Try] = field(default_factory=dict)
    deferred: deque[Call] = field(default_factory=deque)
    again: list[_Try] = field(default_factory=list)
    unput: list[tuple[_Try, Answer]] = field(
        default_factory=list
    )  # done but for their files: another process holds their folder
    ended: set[str] = field(default_factory=set)
    held: dict[int, tuple[Any, Any]] = field(
        default_factory=dict
    )  # the last objects of calls, by id, with their references
    exhausted: bool = False
    shown: float = float("-inf")

    def done(self) -> Iterator[Done]:
        """Every call as it ends."""
        import ray

        while True:
            self.cluster.check()
            self._submit()
            if not (self.submitted or self.again or self.unput):
                return
            ready, _ = (
                ray.wait(list(self.submitted), timeout=PAUSE)
                if self.submitted
                else ([], time.sleep(PAUSE))
            )
            self._show()
            received = (
                self._received(reference, self.submitted.pop(reference)) for reference in ready
            )
            for one in chain(received, self._put()):
                if one is not None:
                    self.ended.add(one.call.name)
                    yield one

    def cancel(self) -> None:
        """End what is under way, as after an error."""
        import ray

        for reference in self.submitted:
            ray.cancel(reference, force=True)

    def _submit(self) -> None:
        most = AHEAD * self.cluster.nodes.cpus - len(self.unput)
        while len(self.submitted) < most:
            one = self._next()
            if one is None:
                return
            self.submitted[self._order(one)] = one

    def _next(self) -> _Try | None:
        """A call that can be done now: one to be tried again, one that waited for others, the next that waits for none."""
        now = time.monotonic()
        for one in self.again:
            if one.when <= now:
                self.again.remove(one)
                return one
        for call in self.deferred:
            if self.ended.issuperset(call.after):
                self.deferred.remove(call)
                return _Try(call)
        while not self.exhausted and len(self.deferred) < DEFERRED:
            call = next(self.source, None)
            if call is None:
                self.exhausted = True
            elif self.ended.issuperset(call.after):
                return _Try(call)
            else:
                self.deferred.append(call)
        return None

    def _order(self, one: _Try) -> Any:
        """Submit a call; returns the reference of its answer."""
        import ray

        call, cluster = one.call, self.cluster
        device = cluster.nodes.device(call.device)
        copied = {
            path.absolute(): files_in(path)
            for path in (*call.reads, call.writes)
            if cluster.unshared and path.exists()
        }
        order = Order(
            replace(call, held=None),
            Path.cwd(),
            device,
            ray.put(copied) if cluster.unshared else None,
            cluster.nodes.board,
        )
        remote = cluster.perform.options(
            num_cpus=one.cpus,
            num_gpus=int(device == "cuda"),
            max_retries=0,
            name=call.name,
            scheduling_strategy="SPREAD",
        )
        return remote.remote(order, [self._reference(call.held)] if call.held is not None else [])

    def _reference(self, held: Any) -> Any:
        """That of an object in the store, into which it is put once; the last two are kept."""
        import ray

        if id(held) not in self.held:
            while len(self.held) > 1:
                self.held.pop(next(iter(self.held)))
            self.held[id(held)] = held, ray.put(held)
        return self.held[id(held)][1]

    def _received(self, reference: Any, one: _Try) -> Done | None:
        """The end of a call, or None where it is to be tried again. Raises RunError where that is of no use."""
        import ray
        from ray import exceptions as lost

        try:
            answer: Answer = ray.get(reference)
        except lost.OutOfMemoryError as error:
            return self._with_more_room(one, error)
        except lost.RayTaskError as error:
            raise error.cause from error
        except lost.RayError as error:
            self._try_again(
                one, f"its worker ended {one.lost + 1} times without an answer ({_brief(error)})"
            )
            return None
        if answer.out_of_memory:
            return self._with_more_room(one, answer.out_of_memory)
        return self._finished(one, answer)

    def _put(self) -> list[Done | None]:
        """The ends of calls whose files wait for their folders, of those that may be tried."""
        now = time.monotonic()
        due = [(one, answer) for one, answer in self.unput if one.when <= now]
        self.unput = [(one, answer) for one, answer in self.unput if one.when > now]
        return [self._finished(one, answer) for one, answer in due]

    def _finished(self, one: _Try, answer: Answer) -> Done | None:
        """The end of a call that was answered; None where another process holds its folder, until that is tried again."""
        error = answer.error or (
            _put_alone(answer.files, one.call.writes) if self.cluster.unshared else None
        )
        if isinstance(error, BusyError) and one.busy < BUSY[1]:
            later = replace(one, busy=one.busy + 1, when=time.monotonic() + BUSY[0])
            if answer.error:
                self.again.append(later)
            else:
                self.unput.append((later, answer))
            return None
        if error is None and not self.cluster.unshared:
            await_path(one.call.writes / one.call.last, "a node")
        return Done(one.call, answer.value, error)

    def _try_again(self, one: _Try, got: str, cpus: int = 0) -> None:
        if one.lost + 1 >= TRIES:
            do = "see the logs of Ray on its node; the same command resumes"
            raise RunError(
                OPERATION, one.call.name, got, "a worker that lives until it is done", do
            )
        self.again.append(replace(one, lost=one.lost + 1, cpus=cpus or one.cpus))

    def _with_more_room(self, one: _Try, reason: object) -> None:
        """Try again with half, then all of the CPUs of the largest node, so that fewer calls share its memory."""
        largest = self.cluster.nodes.largest
        if one.cpus >= largest and one.lost:
            got, do = (
                f"out of memory, although alone on its node ({_brief(reason)})",
                "smaller batches or shorter texts, or a larger node",
            )
            raise RunError(OPERATION, one.call.name, got, "a node with enough memory for it", do)
        self._try_again(
            one, "out of memory", max(largest // 2, 1) if one.cpus < largest // 2 else largest
        )

    def _show(self) -> None:
        """One line now and then on all that is under way, with what one of the workers does."""
        now = time.monotonic()
        if now < self.shown + PAUSE:
            return
        self.shown = now
        done, running, names = (
            len(self.ended),
            len(self.submitted),
            {one.call.name for one in self.submitted.values()},
        )
        news = [
            f"{name}: {what}" for name, what in self.cluster.nodes.news().items() if name in names
        ]
        latest = f", {news[-1]}" if news else ""
        waits = "" if self.cluster.nodes.has_cpu else " (no node has a CPU: waiting for one)"
        self.progress(
            f"cluster{WITHIN}{done} done, {running} under way{waits}{latest}", done, self.total
        )


def _put_alone(files: Mapping[str, bytes], path: Path) -> BusyError | None:
    """Put what a worker made at ``path``, unless another process is at work in that folder, as a local command that began earlier."""
    try:
        with nullcontext() if "" in files else alone(path):
            put_files(files, path)
    except BusyError as error:
        return error
    return None


def _brief(reason: object) -> str:
    """The first words of an error of Ray, which are followed by pages."""
    text = " ".join(str(reason).split())
    return (
        f"{type(reason).__name__}: {text[:117]}…"
        if len(text) > 120
        else f"{type(reason).__name__}: {text}"
    )
