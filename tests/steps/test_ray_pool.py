"""A Ray cluster of three nodes on loopback: what is killed, what is refused, and the same bytes."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from attnaudit.core import InputError, RunError, read_with_digest, silent
from attnaudit.core.errors import LostError
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.studies import study
from attnaudit.recipes.trained import run
from attnaudit.steps import SERIAL, Call, read_manifest
from attnaudit.steps.claim import claimed
from attnaudit.steps.folder import RECORDS, UNFINISHED
from attnaudit.steps.ray_pool import AHEAD, LOCAL, NOWHERE, RayPool, _reply
from attnaudit.trace import trace_files
from attnaudit.tracing import texts as tracing_texts
from tests.pages import FEW, experiments, summaries_as_pages
from tests.steps import calls
from tests.steps.calls import SMALL, made

os.environ.update(LOCAL)
ray = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
ROOT = Path(__file__).parents[2]
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}
# A lost node is missed sooner than Ray's own 5 and 3 s; idle workers wait for the next test.
SETTINGS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "idle_worker_killing_time_threshold_ms": 3_600_000,
}
EPOCHS = {"corpus.size": 200, "training.epochs": 40, "training.patience": None}
SPEC = RunSpec.of("planted-decisive", encoder="bilstm", settings={**SMALL, **EPOCHS})


made_by = partial(Call, last="")


@pytest.fixture(scope="module")
def cluster():
    """The head, which does no calls, and two nodes of one CPU."""
    from ray.cluster_utils import Cluster

    head = {**NODE, "num_cpus": 0, "include_dashboard": False, "_system_config": SETTINGS}
    found = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        found.add_node(**NODE)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.fixture(scope="module")
def pool(cluster):
    """A pool by the one connection of all tests, whose workers live on."""
    ray.init(cluster.address, log_to_driver=False)
    return RayPool(cluster.address)


@pytest.fixture
def stop_the_head(cluster, monkeypatch):
    """Make the head silent, as on a machine that is cut off, until the test ends."""
    monkeypatch.setattr("attnaudit.steps.ray_pool.SILENT", 3.0)
    head = cluster.head_node.all_processes["gcs_server"][0].process

    def stop():
        head.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{head.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")

    yield stop
    head.send_signal(signal.SIGCONT)


def wait_for(ready, seconds=300):
    until = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def program(text, *arguments):
    """Run a program in a process of its own."""
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_cluster_of_another_version_is_one_line(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(ray, "__version__", "2.1.0")
    with pytest.raises(RunError, match=r"ersion.*a cluster of Ray 2\.1\.0; install the same"):
        RayPool(cluster.address).device("auto")


def test_a_head_that_is_silent_when_all_is_done_is_one_line(cluster, stop_the_head):
    """Ray itself would wait for it."""
    own = RayPool(cluster.address)
    assert own.device("auto") == "cpu"
    stop_the_head()
    with pytest.raises(LostError, match="no answer for 3 s"), own:
        pass
    cluster.head_node.all_processes["gcs_server"][0].process.send_signal(signal.SIGCONT)
    wait_for(lambda: not ray.is_initialized())


UNLIKE_A_HEAD = """
import os, socket, sys, threading
from attnaudit.core.errors import LostError
from attnaudit.steps import ray_pool

def answer(connection):
    connection.recv(100)
    connection.sendall(sys.argv[1].encode())

def serve():
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

ray_pool.SILENT = 8.0
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, daemon=True).start()
try:
    ray_pool.RayPool(f"127.0.0.1:{server.getsockname()[1]}").device("auto")
except LostError as error:
    print(error, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("words", ["", "HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_another_server_at_the_address_is_one_line(words):
    """Ray itself would ask it for minutes."""
    done = program(UNLIKE_A_HEAD, words)
    expected = (
        "run on a cluster: the head of the cluster: no answer for 8 s; expected a head of Ray"
    )
    assert done.stdout.startswith(expected)
    assert len(done.stdout.splitlines()) == 1


OUT_OF_MEMORY = """
import sys, time
from pathlib import Path
from attnaudit.core.errors import RunError
from attnaudit.core.progress import silent
from attnaudit.steps import Call
from attnaudit.steps.ray_pool import RayPool

def sleep(held, out, progress, device):
    time.sleep(1000)

try:
    with RayPool() as pool:
        pool._shared.append(Path(sys.argv[1]))  # that question, too, would never have memory
        list(pool.do([Call("large", sleep, Path(sys.argv[1]) / "x")], silent))
except RunError as error:
    print(error)
"""


def test_a_call_that_never_has_memory_is_one_line_on_a_cluster_of_this_machine(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.01")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    monkeypatch.setenv("RAY_task_oom_retries", "1")
    done = program(OUT_OF_MEMORY, tmp_path)
    line = done.stdout.splitlines()[-1]  # after what Ray prints of it
    assert line.startswith("run on a cluster: large: its worker is lost each time (OutOfMemory")


LOCAL_CLUSTER = """
import os, sys, time
from attnaudit.steps import ray_pool
ray_pool.NOWHERE["http_proxy"] = sys.argv[1]
before = dict(os.environ)
with ray_pool.RayPool() as pool:
    assert pool.device("auto") == "cpu"
    print({name for name in ("http_proxy", "no_proxy") if os.environ.get(name) != before.get(name)})
    time.sleep(float(sys.argv[2]))
"""


def test_a_cluster_of_this_machine_asks_no_cloud_what_it_is(tmp_path, monkeypatch):
    """What Ray asks for goes to a proxy, which here writes it down and otherwise is none."""
    monkeypatch.setenv("no_proxy", "169.254.169.254")  # as on machines of a cloud
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(30)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        command = [sys.executable, "-c", LOCAL_CLUSTER, address, "6"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as done:
            connection, _ = proxy.accept()
            with connection:
                asked = connection.recv(1000)
            said, _ = done.communicate()
    assert b"169.254.169.254" in asked
    assert (said, done.returncode) == ("set()\n", 0)
    assert NOWHERE["http_proxy"] == "http://127.0.0.1:9"  # where nobody listens


def workers(name):
    """Processes that do a call of this name, with their parents."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                stat = (path / "stat").read_text()
                found[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


def trained_epochs(out, known):
    """The times of the checkpoints seen so far; new ones appear while a model is trained."""
    for path in out.rglob("checkpoint.safetensors"):
        known.add(path.stat().st_mtime_ns)
    return known


def wait_for_epochs(out, number=2):
    known = trained_epochs(out, set())
    before = len(known)
    wait_for(lambda: len(trained_epochs(out, known)) >= before + number)


@contextmanager
def in_shards():
    """Traces in shards of a few rows, here and, as calls have their number, on the cluster."""
    options = partial(tracing_texts.CollectOptions, shard_rows=8)
    with summaries_as_pages(), experiments(*FEW), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing_texts, "CollectOptions", options)
        patch.setattr("attnaudit.recipes.job.SHARD_ROWS", 8)
        yield


@pytest.fixture(scope="module")
def done_here(tmp_path_factory):
    with in_shards():
        return run(SPEC, tmp_path_factory.mktemp("local") / "run")


@pytest.fixture
def whole(done_here):
    """The run, done by this process."""
    with in_shards():
        yield done_here


def kill_a_driver(work, ready):
    """Start a process that does the work, and kill it as soon as it is ready."""
    command = [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)()"]
    driver = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    assert driver.stdin is not None
    with driver.stdin as given:
        given.write(pickle.dumps(work))
    ready()
    assert driver.poll() is None
    driver.kill()
    driver.wait()


def test_driver_worker_and_node_are_killed_amid_a_training(cluster, whole, tmp_path, request):
    """The same command resumes, Ray does the call again, and the bytes are the same."""
    out = tmp_path / "run"
    work = partial(run, SPEC, out, pool=RayPool(cluster.address))
    kill_a_driver(work, lambda: wait_for_epochs(out))
    left = next(out.rglob("checkpoint.safetensors"))
    wait_for(lambda: not workers(SPEC.name))  # they end with their driver
    assert left.exists()
    pool = request.getfixturevalue("pool")

    def kill():
        wait_for_epochs(out)
        ((worker, _),) = workers(SPEC.name).items()
        os.kill(worker, signal.SIGKILL)
        wait_for_epochs(out)
        ((other, raylet),) = workers(SPEC.name).items()
        assert other != worker
        nodes = {one.all_processes["raylet"][0].process.pid: one for one in cluster.worker_nodes}
        cluster.remove_node(nodes[raylet], allow_graceful=False)

    with ThreadPoolExecutor(1) as thread:
        killed = thread.submit(kill)
        run(SPEC, out, pool=pool)
        killed.result()
    assert made(out) == made(whole)


@pytest.mark.parametrize("name", ["need", "transfer", "encoder", "complexity"])
def test_a_study_has_the_same_bytes(pool, tmp_path, name):
    several = {f"{name}.seeds": 3, "encoder.models": ("none", "average", "cnn3", "bilstm")}
    settings = {**SMALL, **{key: one for key, one in several.items() if key.startswith(name)}}
    with summaries_as_pages(), experiments(*FEW):
        here, there = (
            study(name, "planted-decisive", tmp_path / place, pool=one, settings=settings)
            for place, one in (("here", SERIAL), ("there", pool))
        )
    assert made(here) == made(there)


def test_what_a_stopped_run_has_finished_is_not_done_again(pool, whole, tmp_path):
    out, shown = tmp_path / "run", []

    def stop_amid_the_shards(stage, done, total):
        shown.append(stage)
        if total > 1 and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SPEC, out, stop_amid_the_shards, pool=pool)
    assert shown[-1] == "cluster · 1 done, 2 under way"
    records = read_with_digest(out / UNFINISHED / RECORDS)
    run(SPEC, out, pool=pool)
    assert read_manifest(out)["steps"]["train"] == records["train"]
    assert len(trace_files(out)) == 3
    assert made(out) == made(whole)


def test_a_worker_that_is_lost_each_time_is_one_line(pool, tmp_path):
    with pytest.raises(RunError, match=r"mortal: its worker is lost each time \(WorkerCrashed"):
        list(pool.do([made_by("mortal", calls.killed, tmp_path / "x")], silent))


def test_an_error_in_the_input_is_a_value_and_a_fault_is_raised(pool, tmp_path):
    (refused,) = pool.do([made_by("one", calls.refused, tmp_path / "x")], silent)
    with pytest.raises(InputError, match="read: row 3: nothing; expected a label; add one"):
        refused.result()
    with pytest.raises(ZeroDivisionError):
        list(pool.do([made_by("one", calls.broken, tmp_path / "x")], silent))


def test_calls_under_way_end_with_their_command(pool, tmp_path):
    works = {"quick": partial(calls.number, number=1), "endless": calls.sleep}
    done = pool.do([made_by(name, work, tmp_path) for name, work in works.items()], silent)
    assert next(done).result() == 1
    wait_for(lambda: workers("endless"))
    done.close()
    wait_for(lambda: not workers("endless"))


def test_a_head_that_is_silent_is_one_line(pool, stop_the_head, tmp_path):
    endless = (made_by(f"{k}", partial(calls.number, number=k), tmp_path) for k in count())
    done = pool.do(endless, silent)
    next(done)
    stop_the_head()
    with pytest.raises(LostError, match=r"no answer for 3 s; .* the same command resumes"):
        list(done)
    assert list(tmp_path.iterdir()) == []


def test_no_more_calls_are_submitted_than_a_cluster_can_do_soon(pool, tmp_path):
    taken, ended, shown = [], [], []

    def some():
        for k in range(60):
            taken.append(k)
            after = ("59",) if k == 0 else ()
            yield made_by(f"{k}", partial(calls.number, number=k), tmp_path, after=after)

    cpus = int(ray.cluster_resources()["CPU"])
    for done in pool.do(some(), lambda *one: shown.append(one), 60):
        ended.append(done.result())
        assert len(taken) - len(ended) <= AHEAD * cpus + 1
    assert sorted(ended) == list(range(60))
    assert ended.index(0) > ended.index(59)
    assert shown[-1] == ("cluster · 60 done, 0 under way", 60, 60)


def test_paths_mean_the_same_on_a_worker_and_what_is_held_arrives(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("source").write_text("words")
    call = made_by("read", calls.text_of, Path("source"), {"held": [1]})
    (done,) = pool.do([call], silent)
    assert done.result() == ("words", {"held": [1]})


def test_what_a_slow_folder_shows_late_is_waited_for(pool, tmp_path, monkeypatch):
    soon, late = (
        made_by("late", partial(calls.touch_later, seconds=s), tmp_path, last="a")
        for s in (2.0, 60.0)
    )
    assert [done.error for done in pool.do([soon], silent)] == [None]
    (tmp_path / "a").unlink()
    monkeypatch.setattr("attnaudit.steps.ray_pool.LATE", 1.0)
    with pytest.raises(RunError, match=r"a: not seen on .* 1 s after a node wrote it"):
        list(pool.do([late], silent))


def test_a_call_whose_folder_is_busy_is_tried_again(pool, tmp_path):
    """As of a worker that lives on a while after its driver was killed."""
    marks, place = tmp_path / "marks", tmp_path / "place"
    marks.mkdir()
    call = made_by("one", partial(calls.hold, marks=marks), place, last="made")
    with ThreadPoolExecutor(1) as thread:
        with claimed(place):
            done = thread.submit(lambda: list(pool.do([call], silent)))
            wait_for(lambda: len(list(marks.iterdir())) > 1)
            assert not (place / "made").exists()
        assert [one.result() for one in done.result()] == ["held"]


def test_a_call_has_the_threads_of_its_cpu(pool, tmp_path):
    (done,) = pool.do([made_by("threads", calls.threads, tmp_path)], silent)
    assert done.result() == [1, 1]


def test_a_gpu_is_given_where_settings_want_one(cluster, pool, tmp_path):
    """By a node that says that it has one."""
    assert (pool.device("auto"), pool.device("cpu")) == ("cpu", "cpu")
    for device in ("cuda", "cuda:1"):
        with pytest.raises(InputError, match=f"'{device}'; expected one of auto, cpu on this"):
            pool.device(device)
    node = cluster.add_node(**NODE, num_gpus=1)
    some = [
        made_by(device, calls.gpus, tmp_path, device=device) for device in ("auto", "cuda", "cpu")
    ]
    found = {done.call.name: done.result() for done in RayPool(cluster.address).do(some, silent)}
    cluster.remove_node(node)
    assert found == {"auto": ("cuda", 1), "cuda": ("cuda", 1), "cpu": ("cpu", 0)}


def no_package(probe):
    return _reply(probe)


def test_a_node_that_cannot_do_the_work_is_one_line(cluster, pool, tmp_path, monkeypatch):
    """It has another version, no such package, or another folder at the path."""
    call, here = made_by("one", partial(calls.number, number=1), tmp_path / "x"), os.getpid()

    def elsewhere(probe):
        return _reply(probe if os.getpid() == here else probe.with_name("another"))

    def refusal():
        with pytest.raises(RunError) as caught:
            list(RayPool(cluster.address).do([call], silent))
        return str(caught.value)

    with monkeypatch.context() as patch:
        patch.setattr("attnaudit.steps.ray_pool._reply", elsewhere)
        assert f"does not share {tmp_path}; expected attnaudit" in refusal()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "nowhere", ModuleType("nowhere"))
        patch.setattr(no_package, "__module__", "nowhere")
        patch.setattr(sys.modules["nowhere"], "no_package", no_package, raising=False)
        patch.setattr("attnaudit.steps.ray_pool._reply", no_package)
        line = refusal()
        assert line.startswith("run on a cluster: node 127.0.0.1: no answer (")
        assert "No module named 'nowhere'" in line
    with monkeypatch.context() as patch:
        ours = {"attnaudit": "9.9", "python": "3.99.1"}
        patch.setattr("attnaudit.steps.ray_pool.versions", lambda: ours)
        assert "expected attnaudit 9.9, Python 3.99, shares" in refusal()
    assert list(tmp_path.iterdir()) == []
