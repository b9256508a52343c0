"""The cost of a Ray cluster: many calls that do nothing, and one audit on one to three nodes.

    python -m benchmarks.cluster calls [--calls 10000]
    python -m benchmarks.cluster audit [--instances 500000]

Nodes are raylets on loopback with one CPU each, so more of them than this machine has cores give no
speed: what they cost is measured. *calls* prints calls a second and the memory of the driver.
*audit* prints wall and CPU seconds of ``attnaudit audit`` with all experiments on a made-up trace
of about 20 tokens an instance, here and on each cluster; CPU seconds are of the command, its
workers and its part of Ray, of the second of two audits.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from attnaudit.core.progress import Progress, silent
from attnaudit.steps import Call
from attnaudit.steps.ray_pool import LOCAL, RayPool
from attnaudit.trace import write_shards
from benchmarks.made_up import SHARD, made_up_shards
from benchmarks.output import print_header, print_row

NODES = (1, 2, 3)
NODE = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}
ROOT = str(Path(__file__).parents[1])


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Yield the address of a cluster, whose head does no calls."""
    path = os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])  # of workers too
    os.environ.update(LOCAL, PYTHONPATH=path)
    from ray.cluster_utils import Cluster

    head = {**NODE, "num_cpus": 0, "include_dashboard": False}
    found: Any = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(nodes):
        found.add_node(**NODE, num_cpus=1)
    try:
        yield found.address
    finally:
        found.shutdown()


def nothing(held: None, progress: Progress, device: str) -> None:
    """Do nothing, as a call."""


def calls(number: int) -> None:
    """Print calls a second, and the memory of the driver."""
    with (
        tempfile.TemporaryDirectory() as place,
        cluster(max(NODES)) as address,
        RayPool(address) as pool,
    ):
        work = (Call(f"{one}", nothing, Path(place)) for one in range(number))
        done = pool.do(work, silent, number)
        next(done)  # after the nodes were asked
        begun = time.perf_counter()
        for _ in done:
            pass
        rate = (number - 1) / (time.perf_counter() - begun)
        memory = psutil.Process().memory_info().rss / 2**20
        print(f"{number:,} calls, {rate:.0f} a second; driver {memory:.0f} MiB")


def audit(instances: int) -> None:
    """Print a row for each engine."""
    print_header(("engine", "wall (s)", "CPU (s)", "CPU µs an instance"))
    with tempfile.TemporaryDirectory() as place:
        trace, out = Path(place) / "trace", Path(place) / "audit"
        write_shards(trace, made_up_shards(instances, 20))
        command = [sys.executable, "-m", "attnaudit", "audit", str(trace), "--out", str(out)]
        print_row(["local", *costs(command, out, instances)])
        for nodes in NODES:
            with cluster(nodes) as address:
                ray = [*command, "--engine", "ray", "--address", address]
                print_row([f"ray, {nodes} of one CPU", *costs(ray, out, instances)])


def costs(command: list[str], out: Path, instances: int) -> list[str]:
    """Measure the second of two audits: kernels are compiled, and workers are there."""
    wall = cpu = 0.0
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        begun, before = time.perf_counter(), sum(cpu_seconds().values())
        audit = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen = dict[tuple[int, float], float]()  # workers end with the audit, waited for by nobody
        while audit.poll() is None:
            seen |= cpu_seconds()
            time.sleep(0.2)
        if audit.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: status {audit.returncode}")
        wall, cpu = time.perf_counter() - begun, sum(seen.values()) - before
    return [f"{wall:.0f}", f"{cpu:.0f}", f"{1e6 * cpu / instances:.0f}"]


def cpu_seconds() -> dict[tuple[int, float], float]:
    """Return those of each living descendant, by its number and when it began."""
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
    parts = parser.add_subparsers(required=True)
    for part, option, number in ((calls, "calls", 10_000), (audit, "instances", 10 * SHARD)):
        command = parts.add_parser(part.__name__)
        command.add_argument(f"--{option}", dest="number", type=int, default=number)
        command.set_defaults(part=part)
    options = parser.parse_args()
    options.part(options.number)


if __name__ == "__main__":
    main()
