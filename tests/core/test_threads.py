"""Work by pieces on Python's threads."""

import numpy as np
import pytest

from attnaudit.core.threads import LEAST, PIECES, on_threads, over_rows
from tests.forked import printed


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "lengths", [[], [0], [5], [0, 3, 0, 0], [1] * 31, [LEAST] * 7, [9 * LEAST, 1]]
)
def test_every_row_is_in_one_piece(monkeypatch, lengths, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    seen = np.zeros(len(lengths), int)

    def count(first, last, offsets, step):
        assert first < last
        seen[first:last] += step

    over_rows(count, np.cumsum([0, *lengths]), 2)
    assert (seen == 2).all()


@pytest.mark.parametrize("rows", [100, 100 * LEAST])
def test_work_is_cut_where_it_is_large(monkeypatch, rows):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    pieces = []
    over_rows(lambda first, last, _: pieces.append(last - first), np.arange(rows + 1))
    assert len(pieces) == (1 if rows < LEAST else 2 * PIECES)
    assert max(pieces) - min(pieces) <= 1


def test_results_are_in_the_order_of_the_items(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert on_threads(pow, range(100), [2] * 100) == [k * k for k in range(100)]
    assert on_threads(pow, [], []) == []


def test_an_error_on_a_thread_is_raised(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")

    with pytest.raises(ZeroDivisionError):
        on_threads(divmod, [1, 2, 3], [1, 0, 1])


RACE = """
import numpy as np
from attnaudit.core.ragged import Ragged
from attnaudit.stats import kendall
scores = Ragged.from_rows(list(np.random.default_rng(0).normal(size=(2000, 20))))
kendall.kendall_tau(scores, scores)
stats = kendall._compare_pairs.stats
print(sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_a_kernel_is_compiled_or_loaded_once_for_all_threads(tmp_path):
    assert printed(RACE, OMP_NUM_THREADS="4", NUMBA_CACHE_DIR=str(tmp_path)) == "1\n"


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


@pytest.mark.slow
def test_kernels_leave_the_threads_of_torch_alone():
    """Fewer than those of kernels, as torch found them, or more, as it was told."""
    assert printed(THREADS, OMP_NUM_THREADS="1") == "1 1 3\n"
