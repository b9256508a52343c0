"""How long a typed sentence takes, from the request to the answer, and how large the pages are.

    python benchmarks/serve.py RUN… [--repeats N]

Serves finished runs with their models by `attnaudit report --serve`, and posts sentences of 8 to 200 words over HTTP: milliseconds of the median
and of the slowest of N, CPU milliseconds of the server, and size of the answer. The page of a run, which loads its model, is given by
itself. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from urllib.request import Request, urlopen

from benchmarks.output import print_header, print_row

SENTENCE = "A charming and often affecting film with a superb cast , but the ending is an awful mess and far too long"
LENGTHS = (8, 23, 100, 200)


def cpu_of(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def read(address: str, words: int, asked: bool) -> tuple[float, int]:
    """Seconds and bytes of one sentence."""
    text = " ".join(islice(cycle(SENTENCE.split()), words))
    body = json.dumps(
        {"text": text, **({"question": "the film is good"} if asked else {})}
    ).encode()
    begun = time.perf_counter()
    with urlopen(Request(f"{address}/read", body, {"Content-Type": "application/json"})) as answer:
        size = len(answer.read())
    return time.perf_counter() - begun, size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    command = [
        sys.executable,
        "-u",
        "-m",
        "attnaudit",
        "report",
        *map(str, options.runs),
        "--serve",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        root = server.stdout.readline().strip()
        columns = ("run", "words", "median (ms)", "slowest (ms)", "CPU (ms)", "answer (kB)")
        print_header(columns)
        for number, run in enumerate(options.runs):
            address = f"{root}runs/{number}"
            begun = time.perf_counter()
            with urlopen(f"{address}/type") as page:
                asked = b"live-question" in page.read()
            page = f"{1000 * (time.perf_counter() - begun):.0f}"
            print_row([run.name, "its page, with the model loaded", page, "", "", ""])
            for words in LENGTHS:
                before, found = cpu_of(server.pid), []
                for _ in range(options.repeats):
                    found.append(read(address, words, asked))
                    time.sleep(0.15)  # the server allows eight a second
                cpu = (cpu_of(server.pid) - before) / options.repeats
                seconds = [one for one, _ in found]
                median, slowest = 1000 * statistics.median(seconds), 1000 * max(seconds)
                milliseconds = (f"{value:.0f}" for value in (median, slowest, 1000 * cpu))
                print_row([run.name, words, *milliseconds, f"{found[0][1] / 1000:.0f}"])
        server.terminate()


if __name__ == "__main__":
    main()
