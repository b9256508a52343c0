"""Engines: what does the calls that a command consists of. Here they are done one after another; `ray_engine` gives them to a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress, within
from attnaudit.runner.claim import refuse_claimed

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Here:
    """The machine on which a call is done: its ``device`` (None: as the settings say), and where paths of the command are there.

    A path lies below the working ``folder`` of the command, and a ``copied`` one, with all in it, where its copy is.
    """

    folder: Path = Path()
    copied: Mapping[Path, Path] = field(default_factory=dict)
    device: str | None = None

    def path(self, path: Path) -> Path:
        """Where ``path`` is on this machine."""
        path = self.folder / path
        known = next((one for one in (path, *path.parents) if one in self.copied), None)
        return path if known is None else self.copied[known] / path.relative_to(known)

    def spec(self, spec: Any) -> Any:
        """A specification with the paths and the device of this machine."""
        if self == LOCALLY:
            return spec
        changed: dict[str, Any] = (
            {"device": self.device} if any(one.name == "device" for one in fields(spec)) else {}
        )
        if getattr(spec, "teacher", None) is not None:
            changed["teacher"] = replace(
                spec.teacher, trace=str(self.path(Path(spec.teacher.trace)))
            )
        if getattr(spec, "vectors", "corpus") not in ("corpus", "random"):
            changed["vectors"] = str(self.path(Path(spec.vectors).expanduser()))
        return replace(spec, **changed)


@dataclass(frozen=True)
class Call:
    """Work that any process can do: a function of a module, ``work(here, held, progress, **arguments)`` with plain arguments.

    Its result is a file or a folder, ``writes``, whole or not there, whose name follows from what it is made of: done twice it is the same.
    What it answers is small. ``reads`` are further files and folders that it reads, ``held`` an object that many calls read, as a corpus.
    The calls named in ``after`` are done before it. ``device`` is what the settings of its model say, ``last`` the file of the folder that
    is written last.
    """

    name: str
    work: Callable[..., Any]
    writes: Path
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    held: Any = None
    after: tuple[str, ...] = ()
    device: str = "cpu"
    last: str = ""


@dataclass(frozen=True)
class Done:
    """A call that ended: its ``answer``, or the ``error`` in its input."""

    call: Call
    answer: Any = None
    error: InputError | None = None

    def result(self) -> Any:
        """The answer; raises the error."""
        if self.error is not None:
            raise self.error
        return self.answer


def files_of(spec: Any) -> tuple[Path, ...]:
    """The files and folders, besides the corpus, that a training of this specification reads."""
    teacher, vectors = getattr(spec, "teacher", None), Path(getattr(spec, "vectors", "corpus"))
    return (
        *([Path(teacher.trace)] if teacher is not None else []),
        *([vectors] if vectors.is_file() else []),
    )


class Engine(Protocol):
    """What does calls, ``at_once`` of them at a time."""

    @property
    def at_once(self) -> int: ...

    def device(self, asked: str) -> str | None:
        """The device of a model whose settings say ``asked``, None: to be seen where it is used. Raises InputError."""
        ...

    def opened(self, folder: Path) -> AbstractContextManager[Engine]:
        """Within it the engine does calls that write below ``folder``. Raises RunError where it cannot."""
        ...

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        """Do ``calls``, of which there are ``total`` (0: not known), and give each as it ends, in any order.

        Calls are taken from the iterable as they can be done, so that it may be long. Those that come ``after`` others follow them in it.
        Raises RunError for a call that cannot be done here.
        """
        ...


@dataclass(frozen=True)
class Local:
    """This process: one call after another, in their order."""

    at_once: int = 1

    def device(self, asked: str) -> str | None:
        return None

    def opened(self, folder: Path) -> AbstractContextManager[Engine]:
        refuse_claimed(folder)
        return nullcontext(self)

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        for number, call in enumerate(calls, 1):
            label = f"{call.name} ({number} of {total})" if total else call.name
            yield done(call, LOCALLY, call.held, within(label, progress))


LOCAL, LOCALLY = Local(), Here()


def done(call: Call, here: Here, held: Any, progress: Progress) -> Done:
    """Do a call; an error in its input is a value."""
    try:
        return Done(call, call.work(here, held, progress, **call.arguments))
    except InputError as error:
        return Done(call, error=error)


def engine_of(name: str = "local", address: str | None = None, unshared: bool = False) -> Engine:
    """The engine ``local``, or ``ray``: the cluster at ``address`` (HOST:PORT), without one this machine.

    With ``unshared`` its nodes share no folder, and all that calls read and write goes through the object store. Raises InputError, and
    RunError where nobody listens at the address: before a corpus is read.
    """
    if name not in ENGINES:
        raise InputError("choose an engine", "--engine", repr(name), f"one of {', '.join(ENGINES)}")
    if name == "ray":
        from attnaudit.runner.ray_cluster import check_reached
        from attnaudit.runner.ray_engine import RayCluster

        if address is not None:
            check_reached(address)
        return RayCluster(address, unshared)
    if address is not None or unshared:
        given = "--unshared" if address is None else f"--address {address}"
        raise InputError("choose an engine", given, "the engine local", "--engine ray")
    return LOCAL
