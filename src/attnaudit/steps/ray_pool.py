"""Pools by name; a Ray cluster as one: its workers do calls on a folder that all nodes share.

Ray does a call again if its worker or node is lost. Workers end with this process; what they made
is found by the next one.
"""

import logging
import os
import platform
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self

from attnaudit.core import InputError, Progress, RunError, require, require_known, silent
from attnaudit.core.errors import LostError
from attnaudit.core.progress import WITHIN
from attnaudit.core.threads import cores, take
from attnaudit.steps.claim import BusyError
from attnaudit.steps.pool import SERIAL, Call, Done, Pool, done
from attnaudit.steps.versions import versions

OPERATION = "run on a cluster"
CPUS = 1  # of a call: small models gain nothing from more threads
AHEAD = 2  # calls submitted for each CPU: while one is done the next waits there
RETRIES = 3  # of a call whose worker or node is lost
PAUSE = 1.0  # seconds between two looks at the cluster
REACHED, SILENT = 5.0, 30.0  # seconds for a connection to the head, and for an answer
ASKED = 120.0  # seconds for a node to start a process and to answer
BUSY = 3.0, 30  # seconds between tries of a busy folder, and tries: a lost worker lives on a while
LATE = 90.0  # seconds until a folder shows what another machine wrote: NFS caches for up to 60
LONG = 150  # characters of an error of Ray, whose messages are pages long
# Settings of Ray, which are read when it is imported: nothing is sent anywhere; a call that never
# has enough memory is given up, which Ray itself would try for ever.
ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": "8"}
# Despite its name: Ray binds to 127.0.0.1 only.
LOCAL = {**ALWAYS, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# With statistics off, and without its dashboard, Ray still asks every cloud for metadata of this
# machine. As long as it starts, its processes get a proxy at which nobody listens.
NOWHERE = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1,localhost"}
# Ray would end a driver that is busy with its own work 60 seconds after the head.
REMOTE = {**ALWAYS, "RAY_gcs_rpc_server_reconnect_timeout_s": "86400"}


class RayPool(Pool):
    """The workers of a Ray cluster. It connects on first use.

    A program that has called ``ray.init`` keeps its connection.

    Args:
        address: HOST:PORT of the head; None: a cluster of this machine alone, until the end of the
            ``with`` statement.

    Raises:
        InputError: If the address is none.
        RunError: If Ray is not installed, or nobody listens at the address.
    """

    shares = True

    def __init__(self, address: str | None = None) -> None:
        require("ray", OPERATION)
        if address is not None:
            check_reached(address)
        self.address = address
        self._is_own = False  # whether the connection was made here
        self._shared: list[Path] = []  # folders that all nodes are known to share
        self._stored: tuple[Any, Any] = (self, None)  # the last object held, and its reference

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._is_own and not isinstance(error, LostError):
            _answer(self._ray.shutdown)

    def device(self, asked: str) -> str:
        """Return ``cuda`` where it is asked for, or ``auto`` is and a node has a GPU; else ``cpu``.

        Raises:
            InputError: If no node has a GPU, or one is asked for by its number.
        """
        devices = ["auto", "cpu", *(["cuda"] if self._has_gpu else [])]
        if asked not in devices:
            expected = f"one of {', '.join(devices)} on this cluster, where Ray chooses the GPU"
            raise InputError(OPERATION, "--device", repr(asked), expected)
        return devices[-1] if asked == "auto" else asked

    def do(
        self, calls: Iterable[Call], progress: Progress, total: int = 0
    ) -> Generator[Done, None, None]:
        """Do calls on all nodes, each with one CPU.

        Raises:
            LostError: If the head of the cluster is silent.
            RunError: If a node has another version or does not share the folder of a call, or if
                the worker of a call is lost again and again.
        """
        ray, source = self._ray, iter(calls)
        deferred, under_way, ended = list[Call](), dict[Any, Call](), set[str]()
        options = {"num_cpus": CPUS, "max_retries": RETRIES, "scheduling_strategy": "SPREAD"}
        work = ray.remote(**options)(_do)
        try:
            while True:
                cpus = sum(int(node["Resources"].get("CPU", 0)) for node in self._nodes())
                while len(under_way) < AHEAD * max(cpus, 1):
                    if (call := _next(source, deferred, ended)) is None:
                        break
                    under_way[self._submit(work, call)] = call
                counts = f"{len(ended)} done, {len(under_way)} under way"
                progress(f"cluster{WITHIN}{counts}", len(ended), total)
                if not under_way:
                    return
                for reference in ray.wait(list(under_way), timeout=PAUSE)[0]:
                    call = under_way.pop(reference)
                    ended.add(call.name)
                    yield _received(ray, call, reference)
        finally:
            for reference in under_way if ray.is_initialized() else ():
                ray.cancel(reference, force=True)

    def _submit(self, work: Any, call: Call) -> Any:
        self._check(call.writes.absolute())
        device = self.device(call.device)
        if self._stored[0] is not call.held:
            self._stored = call.held, self._ray.put(call.held)
        held = [self._stored[1]]  # in a list: Ray would read it anew for every call
        remote = work.options(num_gpus=int(device == "cuda"), name=call.name)
        return remote.remote(replace(call, held=None), held, device, Path.cwd())

    @cached_property
    def _ray(self) -> Any:
        """The module, connected."""
        where, settings = self.address or "this machine", LOCAL if self.address is None else REMOTE
        for name, value in settings.items():
            os.environ.setdefault(name, value)
        import ray

        if ray.is_initialized():
            return ray
        init: Any = partial(ray.init, log_to_driver=False, logging_level=logging.ERROR)
        try:
            if self.address is not None:
                _answer(partial(init, self.address))
            else:  # in this thread, with which its processes end
                here = {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
                before = dict(os.environ)
                os.environ.update(NOWHERE)
                try:
                    init("local", num_cpus=cores(), **here)
                finally:
                    for name in NOWHERE:
                        del os.environ[name]
                    os.environ.update({name: before[name] for name in NOWHERE if name in before})
        except (RuntimeError, ValueError, OSError) as error:
            do = "install the same on all nodes; set RAY_AUTH_MODE=token if the head has a token"
            expected = f"a cluster of Ray {ray.__version__}"
            raise RunError(OPERATION, where, _brief(error), expected, do) from error
        self._is_own = True
        return ray

    def _nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that are alive. Raises LostError."""
        return [node for node in _answer(self._ray.nodes) if node["Alive"]]

    @cached_property  # as long as this process lives: a model trained on a GPU is another one
    def _has_gpu(self) -> bool:
        return any(node["Resources"].get("GPU", 0) >= 1 for node in self._nodes())

    def _check(self, writes: Path) -> None:
        """Raise RunError unless all nodes have these versions and share the folder of a call."""
        if any(writes.is_relative_to(folder) for folder in self._shared):
            return
        folder = next(place for place in writes.parents if place.is_dir())
        with NamedTemporaryFile(dir=folder, prefix=".probe.json.") as file:
            probe = Path(file.name)
            asked = [(node, self._ask(node, probe)) for node in self._nodes()]
            for node, reference in asked:
                ours = _reply(probe)
                try:
                    theirs = self._ray.get(reference, timeout=ASKED)
                except self._ray.exceptions.RayError as error:
                    theirs = f"no answer ({str(error).splitlines()[-1]})"
                if theirs != ours:
                    name = f"node {node['NodeManagerAddress']}"
                    do = "install the same there, and choose an --out on a folder that all mount"
                    raise RunError(OPERATION, name, theirs, ours, do)
        self._shared.append(folder)

    def _ask(self, node: dict[str, Any], probe: Path) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        return self._ray.remote(num_cpus=0, scheduling_strategy=there)(_reply).remote(probe)


def check_reached(address: str) -> None:
    """Check that somebody listens at an address.

    Raises:
        InputError: If it is no HOST:PORT.
        RunError: If nobody listens there.
    """
    where, (host, _, port) = f"--address {address}", address.rpartition(":")
    head = "HOST:PORT of a running head, HOST its name or IPv4 address"
    do = "start one with ray start --head, or leave --address out for this machine alone"
    if not host or ":" in host or not port.isdigit():
        raise InputError(OPERATION, where, "no HOST:PORT", head, do)
    try:
        socket.create_connection((host, int(port)), REACHED).close()
    except (OSError, OverflowError) as error:
        got = f"nobody listens there ({getattr(error, 'strerror', None) or error})"
        raise RunError(OPERATION, where, got, head, do) from error


def _answer(ask: Callable[[], Any]) -> Any:
    """Return what a head answers; Ray itself would wait for ever. Raises LostError."""
    try:
        return ThreadPoolExecutor(1).submit(ask).result(SILENT)
    except TimeoutError as error:
        where, got = "the head of the cluster", f"no answer for {SILENT:.0f} s"
        do = "see the logs of Ray there; on a cluster that lives, the same command resumes"
        raise LostError(OPERATION, where, got, "a head of Ray that answers", do) from error


def _next(source: Iterator[Call], deferred: list[Call], ended: set[str]) -> Call | None:
    """Take the next call that waits for no other; None if there is none now."""
    for call in deferred:
        if ended.issuperset(call.after):
            deferred.remove(call)
            return call
    for call in source:
        if ended.issuperset(call.after):
            return call
        deferred.append(call)
    return None


def _received(ray: Any, call: Call, reference: Any) -> Done:
    """Return the end of a call, once what it made is seen here. Raises RunError."""
    try:
        answer, error = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        got = f"its worker is lost each time ({_brief(error)})"
        expected, do = "a worker that lives until it is done", "see the logs of Ray on its node"
        raise RunError(OPERATION, call.name, got, expected, do) from error
    if error is None:
        _await(call.writes / call.last)
    return Done(call, answer, error)


def _await(path: Path) -> None:
    """Wait until this machine sees what a node wrote. Raises RunError."""
    until = time.monotonic() + LATE
    while not path.exists():
        if time.monotonic() > until:
            got = f"not seen on {platform.node()} {LATE:.0f} s after a node wrote it"
            expected = "a shared folder that shows what is written"
            do = "mount it with a shorter cache of attributes; the same command resumes"
            raise RunError(OPERATION, str(path), got, expected, do)
        time.sleep(PAUSE)


def _brief(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONG]


def _reply(probe: Path) -> str:
    """Say what a machine has in common with that of the command, which wrote ``probe``."""
    known, seen = versions(), "shares" if probe.exists() else "does not share"
    python = known["python"].rpartition(".")[0]
    return f"attnaudit {known.get('attnaudit')}, Python {python}, {seen} {probe.parent}"


def _do(call: Call, held: list[Any], device: str, folder: Path) -> tuple[Any, InputError | None]:
    """Do a call on a worker; paths mean the same as for the command."""
    take(CPUS)
    if folder.is_dir():
        os.chdir(folder)
    pause, tries = BUSY
    while True:
        ended, tries = done(call, _object(held[0]), silent, device), tries - 1
        if not isinstance(ended.error, BusyError) or not tries:
            return ended.answer, ended.error
        time.sleep(pause)


@lru_cache(1)
def _object(reference: Any) -> Any:
    """Return an object of the store; the next call on this worker often reads the same."""
    import ray

    return ray.get(reference)


POOLS = ("local", "ray")


def pool_of(name: str, address: str | None) -> AbstractContextManager[Pool]:
    """Return a pool by its name, to be used in a ``with`` statement.

    Args:
        name: ``local``, or ``ray`` for a cluster.
        address: HOST:PORT of the cluster's head; None: a cluster of this machine alone.

    Raises:
        InputError: If the name or the address is none.
        RunError: If nobody listens at the address.
    """
    require_known("choose a pool", "--engine", name, POOLS)
    if name == "ray":
        return RayPool(address)
    if address is not None:
        raise InputError("choose a pool", f"--address {address}", "the pool local", "--engine ray")
    return nullcontext(SERIAL)
