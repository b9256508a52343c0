"""A cluster of Ray: reached, its nodes asked whether they can do the work, and what of it they tell."""

from __future__ import annotations

import logging
import os
import platform
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, LostError, RunError
from attnaudit.core.extras import require
from attnaudit.core.files import unwritable
from attnaudit.core.threads import cores
from attnaudit.runner.store import versions

OPERATION = "run on a cluster"
LOOPBACK = "127.0.0.1"
REACHED = 5.0  # seconds for a connection to the head
ASKED = 120.0  # seconds for a node to start a process and to answer
LOOK, SILENT = (
    1.0,
    30.0,
)  # seconds between two questions to the head, and without an answer until it is lost
PATIENT = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400"
}  # else Ray ends a driver that is busy 60 s after its head
WITH_TOKEN = {"RAY_AUTH_MODE": "token"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(
    [0, 0, 0, 4, 0, 0, 0, 0, 0]
)  # how HTTP/2, which heads speak, begins
SETTINGS = 4  # the kind of its first frame, in both directions
RUNNING, START = (
    "HOST:PORT of a running head",
    "start one with ray start --head, or leave --address out for this machine alone",
)
NOT_A_HEAD = "what listens there does not answer as a head of Ray does"
ONE_MACHINE = {"RAY_USAGE_STATS_ENABLED": "0"}  # nothing is sent anywhere
ON_LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"
}  # the name is of its first use: Ray binds to 127.0.0.1 and to nothing else


@dataclass(frozen=True)
class Seen:
    """What a node answers: its ``name``, its packages, and whether it reads what the driver wrote, and writes what the driver reads."""

    name: str
    python: str
    package: str | None
    reads: bool = True
    writes: bool = True


class Head:
    """The head of a cluster, which a thread asks for its nodes again and again: one that is lost lets those who ask wait for ever."""

    def __init__(self) -> None:
        self._look()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        import ray

        self.nodes: list[Mapping[str, Any]] = ray.nodes()
        self.answered = time.monotonic()

    def _watch(self) -> None:
        left = False
        while not left:
            left = self._left.wait(LOOK)
            self._look()

    def check(self) -> None:
        """Raise LostError where the head is silent."""
        if self._patience() <= 0.0:
            got, do = (
                f"no answer for {SILENT:.0f} s",
                "see the logs of Ray there; on a cluster that lives, the same command resumes",
            )
            raise LostError(
                OPERATION, "the head of the cluster", got, f"one every {LOOK:.0f} s", do
            )

    def leave(self) -> None:
        """Ask a last time. Raises LostError where no answer comes."""
        self._left.set()
        while self._thread.is_alive():
            self.check()
            self._thread.join(max(self._patience(), 0.0))

    def _patience(self) -> float:
        """Seconds left for an answer."""
        return self.answered + SILENT - time.monotonic()


@dataclass(frozen=True)
class Nodes:
    """The nodes of a cluster that are alive, its ``head``, and the ``board`` to which workers report."""

    head: Head
    board: Any

    @property
    def alive(self) -> list[Mapping[str, Any]]:
        """Raises LostError."""
        self.head.check()
        return [node for node in self.head.nodes if node["Alive"]]

    @property
    def cpus(self) -> int:
        """Of all nodes together; 1 where they have none, as in a cluster that starts a node when a call waits for it."""
        return max(1, sum(int(node["Resources"].get("CPU", 0)) for node in self.alive))

    @property
    def has_cpu(self) -> bool:
        return any(node["Resources"].get("CPU", 0) >= 1 for node in self.alive)

    @property
    def largest(self) -> int:
        """CPUs of the node that has most."""
        return max([1, *(int(node["Resources"].get("CPU", 0)) for node in self.alive)])

    @cached_property
    def has_gpu(self) -> bool:
        return any(node["Resources"].get("GPU", 0) >= 1 for node in self.alive)

    def device(self, asked: str) -> str:
        """``cuda`` where a model is to have a GPU: its settings say so, or say ``auto`` and a node has one. Raises InputError."""
        if asked == "auto":
            return "cuda" if self.has_gpu else "cpu"
        if asked == "cpu":
            return asked
        if asked != "cuda":
            raise InputError(
                OPERATION,
                f"--device {asked}",
                "the number of a GPU, which Ray chooses",
                "auto, cpu or cuda",
            )
        if not self.has_gpu:
            raise InputError(
                OPERATION,
                "--device cuda",
                "no node with a GPU",
                "auto or cpu, or a cluster with a GPU",
            )
        return asked

    def news(self) -> dict[str, str]:
        """What workers do, by the name of their call."""
        import ray
        from ray.exceptions import RayError

        with suppress(RayError):
            return ray.get(self.board.news.remote(), timeout=1.0)
        return {}

    def check(self, folder: Path | None) -> None:
        """Raise RunError for a node that lacks this package, has another version, or does not share the ``folder``, if one is given.

        Every node is to see what is written into it here, and to write into it what is seen here.
        """
        if folder is None:
            refuse(self._ask(None), None)
            return
        token = uuid.uuid4().hex
        probe = folder / f".probe.json.{token[:8]}"
        try:
            probe.write_text(token, encoding="utf-8")
            answers = self._ask(probe, token)
            refuse(
                [_seen_here(answer, probe, number) for number, answer in enumerate(answers)], folder
            )
        except OSError as error:
            raise unwritable(probe, error) from error
        finally:
            for path in folder.glob(f"{probe.name}*"):
                path.unlink(missing_ok=True)

    def _ask(self, probe: Path | None, token: str = "") -> list[Seen]:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked: Any = ray.remote(_question())
        nodes = self.alive
        answers = [
            asked.options(
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(None if probe is None else str(probe), token, number)
            for number, node in enumerate(nodes)
        ]
        found = []
        for node, answer in zip(nodes, answers, strict=True):
            name = f"node {node['NodeManagerAddress']}"
            try:
                found.append(Seen(name, *ray.get(answer, timeout=ASKED)))
            except RayError as error:
                got = f"no answer ({type(error).__name__})"
                raise RunError(
                    OPERATION,
                    name,
                    got,
                    "one that starts a process",
                    "see the logs of Ray there, or remove it",
                ) from error
        return found


def _seen_here(answer: Seen, probe: Path, number: int) -> Seen:
    return Seen(
        answer.name,
        answer.python,
        answer.package,
        answer.reads,
        probe.with_name(f"{probe.name}-{number}").exists(),
    )


def _question() -> Callable[..., tuple[Any, ...]]:
    """What every node is asked. It is a function of its own for each call, which Ray sends as code: the node may lack this package."""

    def asked(probe: str | None, token: str, number: int) -> tuple[Any, ...]:
        import importlib.util
        import platform
        from importlib.metadata import PackageNotFoundError, version
        from pathlib import Path

        try:
            package = (
                version("attnaudit") if importlib.util.find_spec("attnaudit") is not None else None
            )
        except (PackageNotFoundError, ImportError):
            package = None
        reads = True
        if probe is not None:
            try:
                reads = Path(probe).read_text(encoding="utf-8") == token
                Path(f"{probe}-{number}").touch()
            except OSError:
                reads = False
        return platform.python_version(), package, reads

    return asked


def refuse(nodes: Sequence[Seen], folder: Path | None) -> None:
    """Raise RunError for the first node that cannot do the work."""
    ours = versions()
    for node in nodes:
        if node.package is None:
            do = f"pip install attnaudit=={ours.get('attnaudit')} there"
            raise RunError(
                OPERATION,
                node.name,
                "no package attnaudit",
                "that of this machine on every node",
                do,
            )
        if (
            node.package != ours.get("attnaudit")
            or node.python.split(".")[:2] != platform.python_version().split(".")[:2]
        ):
            got, expected = (
                f"attnaudit {node.package}, Python {node.python}",
                f"attnaudit {ours.get('attnaudit')}, Python {ours['python']}",
            )
            raise RunError(OPERATION, node.name, got, expected, "install the same there")
        if folder is not None and not (node.reads and node.writes):
            got, do = (
                f"it does not share {folder} with this machine",
                "choose an --out on a folder that all mount, or give --unshared",
            )
            raise RunError(
                OPERATION, node.name, got, "one folder that all nodes read and write", do
            )


@contextmanager
def connected(address: str | None) -> Iterator[Nodes]:
    """The cluster at an address, or one of this machine alone that ends with the block.

    Raises RunError where there is none, LostError where its head is lost: Ray is then left as it is.
    """
    require("ray", OPERATION)
    if address is not None:
        check_reached(address)
    for name, value in environment(address).items():
        os.environ.setdefault(name, value)  # read when Ray is imported
    if address is not None and _check_answers(address):
        os.environ |= WITH_TOKEN
    import ray

    own = not ray.is_initialized()
    if own:
        _connect(address)
    head = Head()
    try:
        yield Nodes(head, _board())
    finally:
        head.leave()
        if own:
            ray.shutdown()


def environment(address: str | None) -> dict[str, str]:
    """What Ray reads from the environment of a driver. A cluster that the driver starts inherits it, and need not wait."""
    on_loopback = address is None or address.rpartition(":")[0] in (LOOPBACK, "localhost")
    return ONE_MACHINE | (ON_LOOPBACK if on_loopback else {}) | ({} if address is None else PATIENT)


def _check_answers(address: str) -> bool:
    """Ask the head for its cluster, in another process, as Ray would ask again and again and log each answer. Raises RunError.

    Returns whether the head asks for the token of Ray that this user has. Ray makes one when it first starts for one machine alone, and
    ``ray start`` asks for it from then on, but drivers that are given an address send it only when told to, and are not understood by a
    cluster that has none.
    """
    program = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
    asking = subprocess.Popen(
        [sys.executable, "-c", program, address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = threading.Timer(SILENT, asking.kill)
    end.start()
    refused, unlike = False, ""
    with asking:
        for line in asking.stderr or ():
            refused, unlike = "Unauthenticated" in line, line.partition("RpcError: ")[2].strip()
            if refused or unlike:
                break
        end.cancel()
        asking.kill()
    if unlike and not refused:
        raise RunError(
            OPERATION, f"--address {address}", f"{NOT_A_HEAD} ({unlike[:100]})", RUNNING, START
        )
    given = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return (
        refused
        and "RAY_AUTH_MODE" not in os.environ
        and bool(given or (Path.home() / ".ray" / "auth_token").is_file())
    )


def check_reached(address: str) -> None:
    """Raise InputError for an address that is none, RunError where no server of the kind of a head listens."""
    host, _, port = address.rpartition(":")
    if ":" in host:
        raise InputError(
            OPERATION,
            f"--address {address}",
            "an IPv6 address",
            RUNNING,
            "give the name or the IPv4 address of its machine",
        )
    if not host or not port.isdigit():
        raise InputError(OPERATION, f"--address {address}", "no HOST:PORT", RUNNING, START)
    try:
        with socket.create_connection((host, int(port)), REACHED) as connection:
            speaks = os.environ.get("RAY_USE_TLS") == "1" or _speaks_http2(connection)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(
            OPERATION, f"--address {address}", f"nobody listens there ({reason})", RUNNING, START
        ) from error
    if not speaks:
        raise RunError(OPERATION, f"--address {address}", NOT_A_HEAD, RUNNING, START)


def _speaks_http2(connection: socket.socket) -> bool:
    """As a head does."""
    try:
        connection.sendall(PREFACE)
        answer = connection.makefile("rb").read(4)
    except OSError:
        return False
    return len(answer) == 4 and answer[3] == SETTINGS


def _connect(address: str | None) -> None:
    import ray

    given: dict[str, Any] = (
        {"address": address}
        if address
        else {"address": "local", "num_cpus": cores(), "include_dashboard": False}
    )
    if address is None:
        given["_node_ip_address"] = LOOPBACK
    try:
        ray.init(**given, log_to_driver=False, logging_level=logging.ERROR)
    except (RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        do = (
            f"pip install ray=={ray.__version__} on all, or the version of the cluster here"
            if "ersion" in reason
            else "see its logs"
        )
        raise RunError(
            OPERATION,
            address or "this machine",
            reason[:300],
            f"a cluster of Ray {ray.__version__}",
            do,
        ) from error


def _board() -> Any:
    """An actor that keeps what workers last told. Ray sends its class as code, so that its process imports nothing of this package."""
    import ray

    class Board:
        def __init__(self) -> None:
            self.lines: dict[str, str] = {}

        def tell(self, name: str, line: str) -> None:
            self.lines.pop(name, None)
            self.lines[name] = line
            while len(self.lines) > 64:
                self.lines.pop(next(iter(self.lines)))

        def news(self) -> dict[str, str]:
            return self.lines

    return ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
