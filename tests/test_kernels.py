"""Rules for compiled kernels that keep their caches from giving wrong numbers."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from attnaudit.stats.ordering import ascending, largest

SOURCE = Path(__file__).parents[1] / "src" / "attnaudit"
KERNEL_FILES = [path for path in sorted(SOURCE.rglob("*.py")) if "from numba import" in path.read_text(encoding="utf-8")]
SORTS = {"sort", "argsort", "median", "percentile", "quantile", "nanmedian", "nanpercentile", "partition", "argpartition", "unique"}


def sorts_in_kernels(text: str) -> list[str]:
    """Sorting functions of numpy that a compiled function uses."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and any("njit" in ast.unparse(decorator) for decorator in function.decorator_list):
            names = [node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)]
            found += [f"{function.name}: {name}" for name in names if name in SORTS]
    return found


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
def test_kernels_sort_by_our_own_function_alone(path: Path):
    assert sorts_in_kernels(path.read_text(encoding="utf-8")) == []


def test_a_kernel_that_sorts_with_numpy_would_be_found():
    assert sorts_in_kernels("@njit(cache=True)\ndef kernel(x):\n    return np.sort(x)[0]\n") == ["kernel: sort"]


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
def test_every_kernel_is_cached(path: Path):
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
            assert all("cache=True" in decorator for decorator in decorators if "njit" in decorator)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_ascending_is_a_stable_sort(size: int, levels: int):
    values = np.random.default_rng(size).integers(0, levels, size).astype(float)
    np.testing.assert_array_equal(ascending(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_largest_are_as_large_as_those_of_a_sort(size: int, levels: int):
    values = np.random.default_rng(size).integers(0, levels, size).astype(float)
    for count in {0, 1, size // 2, size}:
        chosen = largest(values, count)
        assert len(set(chosen.tolist())) == count
        np.testing.assert_array_equal(np.sort(values[chosen])[::-1], np.sort(values)[::-1][:count])
