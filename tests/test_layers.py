"""Imports only go down, and analysis never needs torch."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tails import graph_trace
from tests.traces import make_trace

SOURCE = Path(__file__).parents[1] / "src" / "attnaudit"

LAYERS = (
    {"core"},
    {"stats"},
    {"trace", "results"},
    {"corpora"},
    {"models", "training"},
    {"tracing", "hf", "torch"},
    {"experiments"},
    {"plans"},
    {"published", "papers"},
    {"studies", "copying"},
    {"calibration"},
    {"report"},
    {"runner"},
    {"server"},
    {"cli", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NEED_TORCH = {"models", "training", "tracing", "hf", "torch", "copying"}


def package_part(path: Path) -> str:
    """What stands right below attnaudit: a module, or a package with all in it."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, everywhere: bool = False) -> list[str]:
    """Modules imported when a file is; ``everywhere``: also those imported within functions or for type checkers alone."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        elif (
            everywhere
            or isinstance(node, (ast.Try, ast.With))
            or (isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING")
        ):
            found += imports(node, everywhere)
    return found


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


def test_every_part_has_a_layer():
    assert {package_part(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_go_down(path: Path):
    mine, tree = package_part(path), ast.parse(path.read_text(encoding="utf-8"))
    for name in imports(tree, everywhere=True):
        if name.startswith("attnaudit."):
            other = name.split(".")[1]
            assert LEVEL[other] <= LEVEL[mine], f"{mine} imports {other}, which stands above it"
    for name in imports(tree):
        if name.split(".")[0] in ("torch", "transformers", "captum"):
            assert mine in NEED_TORCH, (
                f"{mine} imports {name} but belongs to the layers without torch"
            )
    if mine in ("experiments", "report"):
        assert not (NEED_TORCH - {"copying"}) & {
            name.split(".")[1] for name in imports(tree) if name.startswith("attnaudit.")
        }


def test_a_module_that_imports_upwards_would_be_found():
    tree = ast.parse(
        "import attnaudit.cli\ntry:\n    from attnaudit.report import page\nexcept ImportError:\n    pass\n"
        "if TYPE_CHECKING:\n    from attnaudit.runner import run\ndef late():\n    from attnaudit.studies import plan\n"
    )
    assert imports(tree) == ["attnaudit.cli", "attnaudit.report"]
    assert imports(tree, everywhere=True) == [
        "attnaudit.cli",
        "attnaudit.report",
        "attnaudit.runner",
        "attnaudit.studies",
    ]


def test_every_experiment_works_without_torch(tmp_path: Path):
    make_trace(8, (1, 9), seed=1, importance=("ig", "rollout")).write(tmp_path)
    make_trace(8, (1, 9), 3, seed=1, hidden=4).write(tmp_path / "tail")
    program = f"""
import sys
import attnaudit
for settings in ({{}}, {{"adversary": {{"method": "relaxed", "steps": 2}}}}):
    results = attnaudit.audit({str(tmp_path)!r}, settings=settings)
    assert set(results.left_out) == {{"alignment", "joint"}}, results.left_out
    results.save({str(tmp_path / "out")!r})
attnaudit.audit(attnaudit.Trace.read({str(tmp_path / "tail")!r}))
loaded = [name for name in sys.modules if name.split(".")[0] in ("torch", "spacy", "gensim", "transformers")]
assert not loaded, loaded
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "results" / "adversary.parquet").is_file()


def test_a_trace_with_a_stored_graph_is_audited_where_torch_and_transformers_are_not_installed(
    tmp_path: Path,
):
    graph_trace(tmp_path, 8, seed=1).write(tmp_path / "trace")
    command = ["audit", str(tmp_path / "trace"), "--out", str(tmp_path / "out")]
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from attnaudit.cli import main
sys.exit(main({command!r}))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["steps"]["audit"]["notes"]["left_out"]) == {
        "agreement",
        "alignment",
        "joint",
        "ranges",
    }
    assert (tmp_path / "out" / "results" / "adversary.parquet").is_file()


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys, attnaudit; print([n for n in ('torch', 'numba', 'polars', 'pyarrow', 'numpy') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
