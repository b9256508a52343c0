"""Work by chunks of rows on Python's threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from attnaudit.core.threads import over_rows


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [0, 1, 2, 31, 1000])
def test_every_row_is_in_one_chunk_and_chunks_are_in_order(
    monkeypatch: pytest.MonkeyPatch, rows: int, threads: int
):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    seen = np.zeros(rows, int)

    def count(first: int, last: int, step: int) -> int:
        seen[first:last] += step
        return first

    firsts = over_rows(count, rows, 2)
    assert (seen == 2).all()
    assert firsts == sorted(firsts)


def test_an_error_in_a_chunk_is_raised(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")

    def fail(first: int, last: int) -> None:
        if last == 100:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        over_rows(fail, 100)


THREADS = """
import torch
first = torch.get_num_threads()
import os
os.environ["OMP_NUM_THREADS"] = "2"
import numpy as np
from attnaudit.core.ragged import Ragged
from attnaudit.stats.kendall import kendall_tau
scores = Ragged.from_rows(list(np.random.default_rng(0).normal(size=(200, 9))))
kendall_tau(scores, scores)
second = torch.get_num_threads()
torch.set_num_threads(3)
kendall_tau(scores, scores)
print(first, second, torch.get_num_threads())
"""


def test_kernels_leave_the_threads_of_torch_alone():
    """Fewer than those of kernels, as torch found them, or more, as it was told."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "1", "3"]
