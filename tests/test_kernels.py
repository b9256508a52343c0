"""Rules for compiled kernels that keep their caches from giving wrong numbers."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnaudit.core.kernels import (
    SETTINGS,
    Locator,
    code_folder,
    compiling,
    kernel,
    subroutine,
)
from attnaudit.stats.ordering import ascending, select

SOURCE = Path(__file__).parents[1] / "src" / "attnaudit"
KERNEL_FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if "@kernel" in (text := path.read_text(encoding="utf-8")) or "@subroutine" in text
]
COMPILED_ASCENDING, COMPILED_SELECT = kernel(ascending), kernel(select)
SORTS = {
    "sort",
    "argsort",
    "median",
    "percentile",
    "quantile",
    "nanmedian",
    "nanpercentile",
    "partition",
    "argpartition",
    "unique",
}


def sorts_in_kernels(text: str) -> list[str]:
    """Sorting functions of numpy that a compiled function uses."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and any(
            word in ast.unparse(decorator)
            for decorator in function.decorator_list
            for word in ("kernel", "subroutine")
        ):
            names = [node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)]
            found += [f"{function.name}: {name}" for name in names if name in SORTS]
    return found


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
def test_kernels_sort_by_our_own_function_alone(path: Path):
    assert sorts_in_kernels(path.read_text(encoding="utf-8")) == []


def test_a_kernel_that_sorts_with_numpy_would_be_found():
    assert sorts_in_kernels("@kernel\ndef compiled(x):\n    return np.sort(x)[0]\n") == [
        "compiled: sort"
    ]


def test_code_of_other_sources_lies_elsewhere(tmp_path: Path):
    """A kernel changed, in whichever file: another folder for all. What is no kernel leaves the folder as it is."""
    folders = []
    for name, text in (
        ("a.py", "@kernel\ndef f(): ..."),
        ("b/c.py", "@kernel\ndef g(): ..."),
        ("b/c.py", "@kernel\ndef g(): return 1"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        folders.append(code_folder.__wrapped__(tmp_path))
    assert len(set(folders)) == 3
    (tmp_path / "d.py").write_text("x = 1")
    assert code_folder.__wrapped__(tmp_path) == folders[-1]


def test_the_code_of_a_kernel_is_kept_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code_folder.cache_clear()
    compiled = kernel(ascending)
    assert Path(compiled.stats.cache_path).is_relative_to(code_folder(SOURCE))
    assert code_folder(SOURCE).is_relative_to(tmp_path)
    assert SETTINGS.CACHE_DIR == ""
    code_folder.cache_clear()


def test_the_code_of_a_kernel_is_kept_for_every_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The folder and the stamp follow from module and source, not from the path of the checkout or the time of its files."""
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", str(tmp_path / "cache"))
    here, there = (
        Locator.from_function(ascending, str(tmp_path / name / "ordering.py"))
        for name in ("here", "there")
    )
    assert here == there
    assert here is not None
    assert here.get_cache_path() == str(tmp_path / "cache" / "attnaudit.stats.ordering")


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", str(tmp_path / "file"))
    assert kernel(ascending)(np.array([2.0, 1.0])).tolist() == [1, 0]


WITHOUT_OPTIMISATION = """
import numpy as np
from attnaudit.core.kernels import kernel
from attnaudit.stats.ordering import ascending
print(kernel(ascending)(np.array([2.0, 1.0])).tolist())
"""


def test_kernels_compile_under_settings_of_numba(tmp_path: Path):
    environment = {
        **os.environ,
        "NUMBA_OPT": "0",
        "NUMBA_DEBUG_CACHE": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPTIMISATION],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[1, 0]" in done.stdout


@subroutine
def _twice(values):
    return values + values


@kernel
def _four_times(values):
    return _twice(_twice(values))


@kernel
def _eight_times(values):
    return _four_times(_twice(values))


def test_a_kernel_calls_subroutines_and_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Compiled, loaded, and compiled with the called kernel loaded."""
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", str(tmp_path))
    for _ in range(2):
        called, calling = kernel(_four_times.py_func), kernel(_eight_times.py_func)
        assert calling(np.ones(3)).tolist() == [8.0] * 3
        assert called(np.ones(3)).tolist() == [4.0] * 3
        assert _twice(np.ones(3)).tolist() == [2.0] * 3
        for path in tmp_path.rglob("*_eight_times*"):
            path.unlink()


def test_that_a_kernel_is_compiled_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", str(tmp_path))
    told: list[str] = []
    for process in ("first", "second"):
        fresh = kernel(ascending)
        with compiling(lambda process=process: told.append(process)):
            fresh(np.zeros(3))
            fresh(np.ones(4))
    assert "first" in told
    assert "second" not in told


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_ascending_is_a_stable_sort(size: int, levels: int):
    values = np.random.default_rng(size).integers(0, levels, size).astype(float)
    np.testing.assert_array_equal(COMPILED_ASCENDING(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_selected_is_what_a_sort_puts_there(size: int, levels: int):
    values = np.random.default_rng(size).integers(0, levels, size).astype(float)
    for rank in {0, size // 2, size - 1}:
        moved = values.copy()
        assert COMPILED_SELECT(moved, 0, size, rank) == np.sort(values)[rank]
        assert moved[:rank].max(initial=-1.0) <= moved[rank] <= moved[rank:].min()
        np.testing.assert_array_equal(np.sort(moved), np.sort(values))


def test_selection_ends_where_values_are_not_numbers():
    assert np.isnan(COMPILED_SELECT(np.full(9, np.nan), 0, 9, 4))
