"""What the engine ray adds: many calls that do nothing, and one audit here and on clusters of one, two and three nodes.

    python benchmarks/cluster.py calls [--calls 10000]
    python benchmarks/cluster.py audit [--instances 500000]

Nodes are raylets on loopback with one CPU each, so that more of them than this machine has cores give no speed: what is measured is
what they cost. *calls* prints calls a second and the memory of the driver. *audit* prints wall and CPU seconds of `attnaudit audit` with
all experiments on a generated trace of about 20 tokens an instance, kernels compiled before; CPU seconds are
of the command, its workers and its part of Ray.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from attnaudit.core.progress import silent
from attnaudit.runner.ray_cluster import ON_LOOPBACK, ONE_MACHINE
from attnaudit.runner.ray_engine import RayCluster
from attnaudit.steps.pool import Call
from attnaudit.trace import write_shards
from benchmarks.made_up import SHARD, made_up_shards
from benchmarks.output import print_header, print_row
from tests.calls import threads

NODES = (1, 2, 3)
ROOT = Path(__file__).parents[1]


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """The address of a cluster; its head does no calls."""
    os.environ.update(ONE_MACHINE | ON_LOOPBACK)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), os.environ.get("PYTHONPATH", "")]
    )  # of workers too
    from ray.cluster_utils import Cluster

    node = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}
    found: Any = Cluster(
        initialize_head=True, head_node_args={**node, "num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(nodes):
        found.add_node(**node, num_cpus=1)
    try:
        yield found.address
    finally:
        found.shutdown()


def calls(number: int) -> None:
    """Calls a second, and how the driver's memory grows."""
    print_header(("calls", "seconds", "calls a second", "resident memory of the driver (MiB)"))
    with (
        tempfile.TemporaryDirectory() as place,
        cluster(max(NODES)) as address,
        RayCluster(address).opened(Path(place)) as engine,
    ):
        work = (Call(f"{one}", threads, Path(place) / "x") for one in range(number))
        begun = time.perf_counter()
        for ended, _ in enumerate(engine.do(work, silent, number), 1):
            if ended in (1, number // 10, number // 2, number):
                seconds, held = (
                    time.perf_counter() - begun,
                    psutil.Process().memory_info().rss / 2**20,
                )
                print_row([f"{ended:,}", f"{seconds:.1f}", f"{ended / seconds:.0f}", f"{held:.0f}"])


def audit(instances: int) -> None:
    """A row for each engine, the second audit of each."""
    print_header(("engine", "wall (s)", "CPU (s)", "CPU µs an instance"))
    with tempfile.TemporaryDirectory() as place:
        trace, out = Path(place) / "trace", Path(place) / "audit"
        write_shards(trace, made_up_shards(instances, 20))
        command = [sys.executable, "-m", "attnaudit", "audit", str(trace)]
        row("local", command, out, instances)
        for nodes in NODES:
            with cluster(nodes) as address:
                row(
                    f"ray, {nodes} node{'s' * (nodes > 1)}",
                    [*command, "--engine", "ray", "--address", address],
                    out,
                    instances,
                )


def row(name: str, command: list[str], out: Path, instances: int) -> None:
    """The second of two audits, so that kernels are compiled and workers are there."""
    for number in range(2):
        begun, before = time.perf_counter(), sum(cpu_seconds().values())
        audit = subprocess.Popen(
            [*command, "--out", f"{out}-{name}-{number}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        seen: dict[
            tuple[int, float], float
        ] = {}  # of workers too, which end with the audit, and which nobody waits for
        while audit.poll() is None:
            seen |= cpu_seconds()
            time.sleep(0.2)
        if audit.returncode != 0:
            raise SystemExit(f"{name}: status {audit.returncode}")
        wall, cpu = time.perf_counter() - begun, sum(seen.values()) - before
    print_row([name, f"{wall:.0f}", f"{cpu:.0f}", f"{1e6 * cpu / instances:.0f}"])


def cpu_seconds() -> dict[tuple[int, float], float]:
    """Of each process that descends from this one and is alive, by its number and when it began."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid, process.create_time()] = times.user + times.system
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("calls").add_argument("--calls", type=int, default=10_000)
    parts.add_parser("audit").add_argument("--instances", type=int, default=10 * SHARD)
    options = parser.parse_args()
    if options.part == "calls":
        calls(options.calls)
    else:
        audit(options.instances)


if __name__ == "__main__":
    main()
