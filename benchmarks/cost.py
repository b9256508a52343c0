"""Measure processes: wall seconds, CPU seconds, resident memory and its peak."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """Wall and CPU seconds of a command, and the peak memory of its largest process in GiB."""

    wall: float
    cpu: float
    memory: float


def cost_of(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run ``python`` with these arguments and without its output."""
    # A process starts with the peak memory of the one that starts it, so this small module, run as
    # a script, starts the command.
    watched = [sys.executable, __file__, *arguments]
    done = subprocess.run(watched, env=environment, stdout=subprocess.PIPE, check=True)
    return Cost(*json.loads(done.stdout))


def cost_of_attnaudit(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> Cost:
    """Run a command of attnaudit."""
    return cost_of(["-m", "attnaudit", *arguments], environment)


def memory_of(process: int | str = "self") -> tuple[float, float]:
    """Return the resident memory of a process and its peak so far, in GiB; 0 if it has ended."""
    status = Path(f"/proc/{process}/status").read_text()
    kilobytes = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+)", status))
    resident, peak = (int(kilobytes.get(name, 0)) / 2**20 for name in ("VmRSS", "VmHWM"))
    return resident, peak


if __name__ == "__main__":
    begun = time.perf_counter()
    command = [sys.executable, *sys.argv[1:]]
    if (status := subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode) != 0:
        sys.exit(f"{' '.join(command)}: exit status {status}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, cpu = time.perf_counter() - begun, used.ru_utime + used.ru_stime
    print(json.dumps([wall, cpu, used.ru_maxrss / 2**20]))
