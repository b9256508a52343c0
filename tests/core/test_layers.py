"""Imports only go down, no module imports itself over others, and analysis never needs torch."""

import ast
import json
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.forked import printed
from tests.tails import graph_trace
from tests.traces import make_trace

SOURCE = Path(__file__).parents[2] / "src/attnaudit"

LAYERS = (
    {"core"},
    {"stats"},
    {"trace", "results"},
    {"corpora"},
    {"models", "training"},
    {"tracing", "hf", "torch"},
    {"experiments"},
    {"plans"},
    {"calibration"},
    {"papers"},
    {"studies", "copying"},
    {"report"},
    {"steps"},
    {"recipes"},
    {"server"},
    {"cli", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NEED_TORCH = {"models", "training", "tracing", "hf", "torch", "copying"}


def modules_of(source):
    """Parse the modules of the package in a folder, by their dotted names."""
    trees = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        name = ".".join(parts).removesuffix(".__init__")
        trees[name] = ast.parse(path.read_text())
        trees[name].is_package = path.name == "__init__.py"  # type: ignore[attr-defined]
    return trees


def nodes_of(tree, late=True, types=True):
    """Walk a module.

    Args:
        tree: The module, or a part of it.
        late: Enter functions and classes, which are not run when the module is imported.
        types: Enter blocks that only type checkers read.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            parts = [*(node.body if types else ()), *node.orelse]
            yield from (one for part in parts for one in (part, *nodes_of(part, late, types)))
        elif late or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            yield from nodes_of(node, late, types)


def imports(name, trees, late=True, types=True):
    """Return the modules that a module imports, those of other packages too.

    Relative imports count, and names of modules in strings, which `import_module` may be given.
    """
    found, tree = set(), trees[name]
    package = name if getattr(tree, "is_package", False) else name.rpartition(".")[0]
    for node in nodes_of(tree, late, types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parents if node.level else ()), *filter(None, [node.module])])
            both = [(f"{base}.{alias.name}", base) for alias in node.names]
            found |= {full if full in trees else start for full, start in both}
        elif isinstance(node, ast.Constant) and "." in str(node.value) and node.value in trees:
            found.add(str(node.value))
    return found - {name}


def circle(trees):
    """Return the modules of an import circle, empty if there is none."""
    graph = {name: imports(name, trees, types=False) & trees.keys() for name in trees}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


TREES = modules_of(SOURCE)


def part_of(name):
    """Return the name right below attnaudit: a module, or a package with all in it."""
    return name.split(".")[1] if "." in name else ""


def test_every_part_has_a_layer():
    assert {part_of(name) for name in TREES} - {""} <= set(LEVEL)


@pytest.mark.parametrize("name", [name for name in TREES if "." in name])
def test_imports_only_go_down(name):
    mine, at_import = part_of(name), imports(name, TREES, late=False, types=False)
    for other in imports(name, TREES):
        if other.startswith("attnaudit."):
            assert LEVEL[part_of(other)] <= LEVEL[mine], f"{name} imports {other}, which is above"
    heavy = [one for one in at_import if one.split(".")[0] in ("torch", "transformers", "captum")]
    assert not heavy or mine in NEED_TORCH, f"{name} imports {heavy}"
    if mine in ("experiments", "report"):
        ours = {part_of(one) for one in at_import if one.startswith("attnaudit.")}
        assert not (NEED_TORCH - {"copying"}) & ours


def test_no_module_imports_itself_over_others():
    assert not circle({n: t for n, t in TREES.items() if part_of(n)})


@pytest.mark.parametrize(
    "back",
    [
        "from made.b import x",
        "from . import b",
        "from .b import x",
        "def late():\n    from made.b import x",
        "def late():\n    import made.b",
        "import_module('made.b')",
        "MODULE = 'made.b'",
        "try:\n    from made import b\nexcept ImportError:\n    pass",
    ],
)
def test_a_circle_would_be_found(tmp_path, back):
    source = tmp_path / "made"
    source.mkdir()
    for name, text in {"__init__": "", "a": back, "b": "from made.c import y", "c": ""}.items():
        (source / f"{name}.py").write_text(text)
    assert not circle(modules_of(source))
    (source / "c.py").write_text("from made.a import late")
    assert set(circle(modules_of(source))) == {"made.a", "made.b", "made.c"}


def test_imports_for_type_checkers_make_no_circle(tmp_path):
    (tmp_path / "a.py").write_text("from typing import TYPE_CHECKING\nimport made.b")
    (tmp_path / "b.py").write_text("if TYPE_CHECKING:\n    import made.a")
    trees = modules_of(tmp_path)
    trees = {name.replace(tmp_path.name, "made"): tree for name, tree in trees.items()}
    assert not circle(trees)
    assert imports("made.b", trees) == {"made.a"}


def test_every_experiment_works_without_torch(tmp_path):
    make_trace(8, (1, 9), seed=1, importance=("ig", "rollout"), copies=20).write(tmp_path)
    make_trace(8, (1, 9), 3, seed=1, hidden=4).write(tmp_path / "tail")
    program = f"""
import sys
import attnaudit
results = attnaudit.audit({str(tmp_path)!r})
assert set(results.left_out) == {{"alignment", "joint"}}, results.left_out
results.save({str(tmp_path / "out")!r})
attnaudit.audit(attnaudit.Trace.read({str(tmp_path / "tail")!r}))
loaded = {{name.split(".")[0] for name in sys.modules}}
assert not loaded & {{"torch", "spacy", "gensim", "transformers", "pyarrow"}}
"""
    printed(program)
    assert (tmp_path / "out/results/adversary.parquet").is_file()


@pytest.mark.slow
def test_a_trace_with_a_stored_graph_is_audited_where_torch_and_transformers_are_not_installed(
    tmp_path,
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
    printed(program)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert "adversary" not in manifest["steps"]["audit"]["notes"]["left_out"]
    assert (tmp_path / "out/results/adversary.parquet").is_file()


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("torch", "numba", "polars", "pyarrow", "numpy")
    program = f"import sys, attnaudit; print([n for n in {heavy} if n in sys.modules])"
    assert printed(program) == "[]\n"
