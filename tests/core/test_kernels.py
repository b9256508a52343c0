"""Compiled kernels are few, plain and complete in one file, so that numba's cache never misleads."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/attnaudit"
FILES = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
WITH_NUMBA = [path for path, text in FILES.items() if "numba" in text]
DECORATOR = "njit(cache=True, nogil=True)"
MOST = 8


def compiled(tree):
    """The functions of a file that numba compiles."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]


def faults(text):
    """Ways in which the kernels of a file are not plain, or hold code or values of another file."""
    tree, found, foreign = ast.parse(text), [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [f"imports {one.name}" for one in node.names if "numba" in one.name]
        if isinstance(node, ast.ImportFrom):
            names = [one.asname or one.name for one in node.names]
            if str(node.module).startswith("numba") and (node.module, names) != ("numba", ["njit"]):
                found.append(f"imports {', '.join(names)} of {node.module}")
            if str(node.module).startswith("attnaudit"):
                foreign.update(names)
    for kernel in compiled(tree):
        if [ast.unparse(decorator) for decorator in kernel.decorator_list] != [DECORATOR]:
            found.append(f"{kernel.name} is not decorated as {DECORATOR}")
        used = {
            node.id
            for statement in kernel.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name)
        }
        found += [f"{kernel.name} uses {name} of another file" for name in used & foreign]
    return found


@pytest.mark.parametrize("path", WITH_NUMBA, ids=lambda path: str(path.relative_to(SOURCE)))
def test_kernels_are_plain_and_complete_in_their_file(path):
    assert faults(FILES[path]) == []


def test_there_are_few_kernels():
    names = [kernel.name for path in WITH_NUMBA for kernel in compiled(ast.parse(FILES[path]))]
    assert 0 < len(names) <= MOST, names


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from numba.core import config", "imports config of numba.core"),
        ("import numba", "imports numba"),
        ("@njit(cache=True)\ndef f(x): return x", f"f is not decorated as {DECORATOR}"),
        (
            f"from attnaudit.core import g\n@{DECORATOR}\ndef f(x): return g(x)",
            "f uses g of another file",
        ),
    ],
)
def test_a_kernel_that_breaks_a_rule_is_noticed(text, fault):
    assert faults(text) == [fault]
