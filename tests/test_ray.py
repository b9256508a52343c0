"""The engine ray on a cluster of three nodes on loopback: workers, a node and a driver that are killed, and what is refused."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnaudit.core.errors import InputError, LostError, RunError
from attnaudit.core.progress import silent
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.reproduction.cells import RUNS
from attnaudit.recipes.reproduction.sweep import reproduce
from attnaudit.recipes.study import TRAININGS, StudySpec, run_study
from attnaudit.runner.ray_cluster import (
    ON_LOOPBACK,
    ONE_MACHINE,
    Head,
    Seen,
    _board,
    _check_answers,
    _question,
    connected,
    environment,
    refuse,
)
from attnaudit.runner.ray_engine import AHEAD, RayCluster, _Flight
from attnaudit.runner.ray_worker import Order, _performed, await_path
from attnaudit.steps.claim import claimed
from attnaudit.steps.pool import Call
from attnaudit.steps.versions import versions
from attnaudit.trace import write_shards
from tests.calls import copied_text, gpus, marked, threads, too_large, touch, touch_later
from tests.pages import summaries_as_pages
from tests.test_engine import SMALL, made
from tests.test_reproduce import data, small_sweep
from tests.traces import make_trace

__all__ = ["data"]
os.environ.update(ONE_MACHINE | ON_LOOPBACK)
ray = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SOON_MISSED = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
}  # a node that is lost; usual are 5 and 3 s
LIVE_ON = {
    "idle_worker_killing_time_threshold_ms": 3_600_000
}  # workers that have nothing to do, for the next test; usual is 1 s
SPEC = StudySpec.of(
    "seeds",
    "planted-decisive",
    encoder="average",
    settings=SMALL | {"seeds.seeds": 4, "training.epochs": 30},
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes: the head, which does no calls, and two of one CPU."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}
    head = {
        **node,
        "num_cpus": 0,
        "include_dashboard": False,
        "_system_config": SOON_MISSED | LIVE_ON,
    }
    found = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        found.add_node(**node)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, done here."""
    out = tmp_path_factory.mktemp("local") / "study"
    with summaries_as_pages():
        run_study(SPEC, out)
    return out


@pytest.fixture(scope="module")
def engine(cluster: Any) -> Iterator[RayCluster]:
    """The engine, by one connection for all tests, whose workers live on, with one board that these report to."""
    ray.init(cluster.address, log_to_driver=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "RAY_AUTH_MODE", "disabled"
        )  # else each connection asks whether it needs the token, where this user has one
        patch.setattr("attnaudit.runner.ray_cluster._board", cache(_board))
        yield RayCluster(cluster.address)


def finished(out: Path, kind: str = TRAININGS) -> dict[str, int]:
    """When each training, or run, was finished."""
    return {
        path.parent.name: path.stat().st_mtime_ns for path in (out / kind).glob("*/manifest.json")
    }


def wait_for(ready: Callable[[], Any], seconds: float = 300) -> Any:
    until = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def workers() -> list[int]:
    """Processes that do a call."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith((b"ray::base-", b"ray::sst-")):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_a_cluster_of_another_version_is_one_line(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "__version__", "2.1.0")
    with (
        pytest.raises(RunError, match=r"ersion.*a cluster of Ray 2\.1\.0; pip install"),
        connected(cluster.address),
    ):
        pass


def test_another_server_at_the_address_is_one_line() -> None:
    """Such as the dashboard of Ray. Ray itself would ask it again and again, and print each time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            connection = server.accept()[0]
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with (
            pytest.raises(
                RunError,
                match="what listens there does not answer as a head of Ray does; expected HOST:PORT",
            ),
            connected(address),
        ):
            pass
        thread.join()


def test_another_server_that_speaks_http2_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Such as a proxy. Ray itself would log each of twenty answers."""

    def frame(kind: int, flags: int, stream: int, held: bytes) -> bytes:
        return (
            len(held).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + held
        )

    def answer(connection: socket.socket) -> None:
        """The frames that begin a connection, then the status 404 to what is asked first."""
        with connection, suppress(OSError):
            connection.sendall(frame(4, 0, 0, b"") + frame(4, 1, 0, b""))
            for _ in range(3):
                connection.recv(65536)
                connection.sendall(frame(1, 5, 1, b"\x8d"))

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(RunError, match=r"does not answer as a head of Ray does \(RPC error"),
            connected(address),
        ):
            pass
        server.shutdown(socket.SHUT_RDWR)
    assert capfd.readouterr().err == ""


def test_a_token_is_sent_to_a_head_that_asks_for_it(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray makes one when it first starts for one machine held, and then clusters that are started ask for it."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not _check_answers(cluster.address)  # there is none
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64, encoding="utf-8")
    assert not _check_answers(cluster.address)  # this cluster has none
    refusal = "import sys; print('W gcs_client.cc: Unauthenticated: RPC error', file=sys.stderr, flush=True); sys.stdin.read()"
    (tmp_path / "refused").write_text(f"#!{sys.executable}\n{refusal}\n", encoding="utf-8")
    (tmp_path / "refused").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "refused"))
    assert _check_answers(cluster.address)


def kill_a_driver(work: Callable[[], Any], ready: Callable[[], Any]) -> None:
    """Start a process that does the work, and kill it as soon as it is ready."""
    program = [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)()"]
    driver = subprocess.Popen(program, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE)
    assert driver.stdin is not None
    with driver.stdin as given:
        given.write(pickle.dumps(work))
    wait_for(lambda: ready() or driver.poll() is not None)
    assert driver.poll() is None
    driver.kill()
    driver.wait()


def kill_a_worker(killed: list[int]) -> None:
    """Wait for a worker, kill it, and wait for another."""
    killed.append(wait_for(workers)[0])
    os.kill(killed[0], signal.SIGKILL)
    wait_for(lambda: set(workers()) - set(killed))


def test_a_driver_that_is_killed(cluster: Any, whole: Path) -> None:
    """With its workers; another one, in the next test, resumes."""
    out = whole.parent / "killed"
    kill_a_driver(
        partial(run_study, SPEC, out, engine=RayCluster(cluster.address)), lambda: finished(out)
    )
    assert 0 < len(finished(out)) < 5


@pytest.mark.usefixtures("quick_pages")
def test_a_worker_and_a_node_that_are_killed(
    cluster: Any, engine: RayCluster, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver that was killed has left trainings, which are not done again; nothing is lost, and the bytes are the same."""
    monkeypatch.setattr(
        "attnaudit.runner.ray_engine.claimed", partial(claimed, silent=1.0)
    )  # in place of 10 s
    out, kept = whole.parent / "killed", finished(whole.parent / "killed")
    killed, checked = list[int](), threading.Event()

    def refused(*answers: Any) -> None:
        refuse(*answers)
        checked.set()

    monkeypatch.setattr("attnaudit.runner.ray_cluster.refuse", refused)

    def kill() -> None:
        """Not before all nodes have answered: one that is lost while it is asked ends the study."""
        assert checked.wait(300)
        kill_a_worker(killed)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    run_study(SPEC, out, engine=engine)
    thread.join()
    assert killed
    assert {name: finished(out)[name] for name in kept} == kept
    assert made(out) == made(whole)


def test_a_sweep_whose_driver_and_worker_are_killed(
    cluster: Any, engine: RayCluster, data: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """The same call does what is missing, and each run is to the byte that of a sweep without a cluster."""
    monkeypatch.setattr(
        "attnaudit.runner.ray_engine.claimed", partial(claimed, silent=1.0)
    )  # in place of 10 s
    local, out, killed = tmp_path / "local", tmp_path / "killed", list[int]()
    reproduce(small_sweep(local, data, seeds=3))
    sweep = small_sweep(out, data, seeds=3)
    kill_a_driver(
        partial(reproduce, sweep, engine=RayCluster(cluster.address)), lambda: finished(out, RUNS)
    )
    kept = finished(out, RUNS)
    assert 0 < len(kept) < 3
    thread = threading.Thread(target=kill_a_worker, args=(killed,))
    thread.start()
    reproduce(sweep, engine=engine)
    thread.join()
    assert {name: finished(out, RUNS)[name] for name in kept} == kept
    assert made(out / RUNS) == made(local / RUNS)
    assert (out / "reproduction.csv").read_bytes() == (local / "reproduction.csv").read_bytes()


@pytest.fixture
def stop_the_head(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Makes the head silent, as on a machine that is cut off, until the test ends."""
    monkeypatch.setattr("attnaudit.runner.ray_cluster.SILENT", 3.0)  # in place of 30 s
    head = cluster.head_node.all_processes["gcs_server"][0].process

    def stop() -> None:
        """On a busy machine a process that is to stop may answer once more."""
        head.send_signal(signal.SIGSTOP)
        wait_for(
            lambda: Path(f"/proc/{head.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        )

    yield stop
    head.send_signal(signal.SIGCONT)


def test_a_head_that_is_silent_is_one_line(
    engine: RayCluster, stop_the_head: Callable[[], None], tmp_path: Path
) -> None:
    def until_silent() -> None:
        with engine.opened(tmp_path) as opened:
            for _ in opened.do(
                (Call(f"{number}", threads, tmp_path) for number in count()), silent
            ):
                stop_the_head()

    with pytest.raises(
        LostError, match=r"the head of the cluster: no answer for 3 s; .* the same command resumes"
    ):
        until_silent()
    assert list(tmp_path.iterdir()) == []


def test_a_head_that_is_silent_when_all_is_done(
    engine: RayCluster, stop_the_head: Callable[[], None], tmp_path: Path
) -> None:
    with pytest.raises(LostError), engine.opened(tmp_path):
        stop_the_head()


def test_a_busy_driver_outlives_the_head_of_a_cluster_that_it_has_not_started():
    """That Ray then waits takes more than its 60 s to see (docs/log.md)."""
    day = "RAY_gcs_rpc_server_reconnect_timeout_s"
    assert int(environment("10.0.0.1:6379")[day]) >= 24 * 3600
    assert day not in environment(None)


def test_a_head_that_falls_silent_after_an_answer_that_was_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command ends while the second answer is under way, it comes, and the last one never does."""
    under_way, for_ever, answers = threading.Event(), threading.Event(), count()

    def nodes() -> list[Any]:
        number = next(answers)
        if number == 1:
            under_way.set()
            time.sleep(0.4)
        elif number > 1:
            for_ever.wait()
        return []

    monkeypatch.setattr(ray, "nodes", nodes)
    monkeypatch.setattr("attnaudit.runner.ray_cluster.LOOK", 0.01)
    monkeypatch.setattr("attnaudit.runner.ray_cluster.SILENT", 0.6)
    head = Head()
    under_way.wait()
    with pytest.raises(LostError):
        head.leave()
    for_ever.set()


@pytest.mark.usefixtures("quick_pages")
def test_files_through_the_object_store(engine: RayCluster, whole: Path, tmp_path: Path) -> None:
    """An audit, and a study of which a training is missing."""
    trace = make_trace(60, (2, 9), 3, seed=0, hidden=4)  # its tail is a file of its own
    write_shards(
        tmp_path / "trace", [trace.take(np.arange(start, start + 20)) for start in range(0, 60, 20)]
    )
    stored, chosen = RayCluster(engine.address, unshared=True), ["permutation", "correlation"]
    audit_into(tmp_path / "local", tmp_path / "trace", chosen)
    audit_into(tmp_path / "shared", tmp_path / "trace", chosen, engine=engine)
    audit_into(tmp_path / "stored", tmp_path / "trace", chosen, engine=stored)
    assert made(tmp_path / "stored") == made(tmp_path / "shared") == made(tmp_path / "local")
    shutil.copytree(whole / "trainings", tmp_path / "study" / "trainings")
    shutil.rmtree(next((tmp_path / "study" / "trainings").glob("base-s1-*")))
    run_study(SPEC, tmp_path / "study", engine=stored)
    assert made(tmp_path / "study") == made(whole)


def test_what_is_done_waits_for_its_folder_and_is_not_done_again(
    engine: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files come through the object store, and a local process holds the folder until after the call."""
    monkeypatch.setattr("attnaudit.runner.ray_engine.BUSY", (0.1, 1000))
    marks, place, looks = tmp_path / "marks", tmp_path / "study" / "made", list[Path]()
    marks.mkdir()
    call = Call("one", marked, place, {"marks": marks, "folder": place})

    def told(what: str, finished: int, total: int) -> None:
        looks.extend(marks.iterdir())
        if len(looks) > 1:
            held.close()

    with (
        ExitStack() as held,
        RayCluster(engine.address, unshared=True).opened(tmp_path / "study") as opened,
    ):
        held.enter_context(held(place))
        assert [done.error for done in opened.do([call], told)] == [None]
    assert (place / "made").read_text() == "whole"
    assert len(list(marks.iterdir())) == 1


def test_a_cluster_without_a_cpu_is_said_to_wait_for_one(
    cluster: Any, engine: RayCluster, tmp_path: Path
) -> None:
    """As one that starts a node when a call waits for it."""
    with engine.opened(tmp_path) as opened:
        shown: list[str] = []
        nodes = opened.nodes  # pyright: ignore[reportAttributeAccessIssue]
        flight = _Flight(opened, iter([]), lambda what, finished, total: shown.append(what), 1)  # pyright: ignore[reportArgumentType]
        flight._show()
        nodes.head.nodes[:] = [{**node, "Resources": {}} for node in nodes.head.nodes]
        flight.shown = float("-inf")
        flight._show()
    assert [what.split("under way")[1] for what in shown] == [
        "",
        " (no node has a CPU: waiting for one)",
    ]


def test_no_more_calls_are_submitted_than_a_cluster_can_do_soon(
    engine: RayCluster, tmp_path: Path
) -> None:
    taken, ended = [], []
    shown: list[str] = []

    def calls() -> Iterator[Call]:
        for number in range(150):
            taken.append(number)
            after = ("149",) if number == 0 else ()
            yield Call(
                str(number),
                touch,
                tmp_path / str(number),
                {"folder": tmp_path / str(number), "number": number},
                after=after,
            )

    with engine.opened(tmp_path) as opened:
        for done in opened.do(calls(), lambda what, finished, total: shown.append(what), 150):
            ended.append(done.result())
            assert len(taken) - len(ended) <= AHEAD * opened.at_once + 1
    assert sorted(ended) == list(range(150))
    assert ended.index(0) > ended.index(149)
    assert shown[-1].startswith("cluster · ")


def test_what_a_slow_folder_shows_late_is_waited_for(
    engine: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in a folder that is there already, as that of a run that is resumed."""
    calls = [
        Call(
            f"{late}",
            touch_later,
            tmp_path,
            {"file": tmp_path / f"{late}", "seconds": late},
            last=f"{late}",
        )
        for late in (2.0, 60.0)
    ]
    with engine.opened(tmp_path) as opened:
        assert [done.error for done in opened.do(calls[:1], silent)] == [None]
        assert (tmp_path / "2.0").exists()
        monkeypatch.setattr("attnaudit.runner.ray_worker.LATE", 1.0)
        with pytest.raises(
            RunError,
            match=r"60\.0: not seen on .* 1 s after a node wrote it; expected a shared folder",
        ):
            list(opened.do(calls[1:], silent))
        with pytest.raises(RunError, match=r"never: not seen on .* after the command wrote it"):
            await_path(tmp_path / "never", "the command")


def test_a_worker_waits_for_what_it_reads(tmp_path: Path) -> None:
    written, reads = tmp_path / "written", tmp_path / "late"
    written.write_text("arrived")
    call = Call(
        "copy",
        copied_text,
        tmp_path / "copy",
        {"source": reads, "target": tmp_path / "copy"},
        reads=(reads,),
    )
    threading.Timer(1.0, written.rename, [reads]).start()  # whole at once, as the store writes
    with ExitStack() as stack:
        answer = _performed(Order(call, tmp_path, "cpu", None, None), None, stack)
    assert answer.error is None
    assert (tmp_path / "copy").read_text() == "arrived"


def test_a_call_takes_the_threads_that_it_is_given(engine: RayCluster, tmp_path: Path) -> None:
    with engine.opened(tmp_path) as opened:
        (done,) = opened.do([Call("threads", threads, tmp_path)], silent)
    assert done.result() == [1, 1]


def test_a_call_that_never_has_memory_is_one_line(engine: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    call = Call("large", too_large, tmp_path / "x", {"marks": tmp_path / "marks"})
    with (
        engine.opened(tmp_path) as opened,
        pytest.raises(RunError, match="large: out of memory, although held on its node"),
    ):
        list(opened.do([call], silent))
    assert len(list((tmp_path / "marks").iterdir())) == 2


def test_a_gpu_is_asked_for_where_settings_want_one(engine: RayCluster, tmp_path: Path) -> None:
    with engine.opened(tmp_path) as opened:
        assert (opened.device("auto"), opened.device("cpu")) == ("cpu", "cpu")
        for device, line in (("cuda", "no node with a GPU"), ("cuda:1", "which Ray chooses")):
            with pytest.raises(InputError, match=line):
                opened.device(device)


def test_a_call_of_a_model_on_a_gpu_is_given_one(
    cluster: Any, engine: RayCluster, tmp_path: Path
) -> None:
    """Of a node that says that it has one."""
    node = cluster.add_node(
        num_cpus=1, num_gpus=1, node_ip_address="127.0.0.1", object_store_memory=80 << 20
    )
    calls = [Call(device, gpus, tmp_path, device=device) for device in ("auto", "cuda", "cpu")]
    with engine.opened(tmp_path) as opened:
        found = {done.call.name: done.result() for done in opened.do(calls, silent)}
    cluster.remove_node(node)
    assert found == {"auto": ("cuda", 1), "cuda": ("cuda", 1), "cpu": ("cpu", 0)}


def test_a_folder_that_nodes_do_not_share_is_refused_before_any_work(
    engine: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes look for the folder elsewhere, as where it is not mounted."""

    def elsewhere() -> Callable[..., Any]:
        asked = _question()
        return lambda probe, token, number: asked(f"/nowhere{probe}", token, number)

    monkeypatch.setattr("attnaudit.runner.ray_cluster._question", elsewhere)
    with (
        pytest.raises(
            RunError, match=r"it does not share .* with this machine; .* give --unshared"
        ),
        engine.opened(tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


OURS = (versions()["python"], versions()["attnaudit"])


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (
            Seen("node n2", OURS[0], None),
            "node n2: no package attnaudit; .* pip install attnaudit==",
        ),
        (Seen("node n2", OURS[0], "0.0.1"), "node n2: attnaudit 0.0.1, .*install the same there"),
        (Seen("node n2", "3.9.1", OURS[1]), "Python 3.9.1; expected"),
        (
            Seen("node n2", *OURS, reads=False),
            "node n2: it does not share /out with this machine; .* give --unshared",
        ),
        (Seen("node n2", *OURS, writes=False), "node n2: it does not share /out with this machine"),
    ],
)
def test_a_node_that_cannot_do_the_work_is_one_line(node: Seen, line: str) -> None:
    with pytest.raises(RunError, match=line):
        refuse([Seen("node n1", *OURS), node], Path("/out"))
    refuse([Seen("node n1", *OURS)], Path("/out"))
