"""Mutation tests: one small change of the source at a time, which a test of that file must notice. ``make mutants N=40 SEED=0``.

Cosmic Ray makes the changes, in a copy of the checkout. A run first repeats every change that survived and has no reason, then tries ``N``
more, drawn at random from those never tried, and writes the outcome of each to docs/mutants.jsonl. A person adds the ``reason`` of a
survivor there: "equivalent: …", or the test that now fails. docs/mutants.md is made from that file. Annotations, decorators, texts,
messages and functions of what is only shown are not changed (`_is_shown`).

Each change runs in a process of its own, forked from one that has imported the large libraries. Kernels of the changed file, and of all
files that import it, are run by Python; only the other ones are compiled. A change whose tests take more than `PATIENCE` times the CPU time
that they take without it counts as killed: its loop does not end. benchmarks/mutants.toml lists the tests of each file.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray import ast as trees
from cosmic_ray import mutating, plugins

ROOT = Path(__file__).parents[1]
RECORDS, PAGE, PACKAGE = ROOT / "docs" / "mutants.jsonl", ROOT / "docs" / "mutants.md", Path("src/attnaudit")
LIBRARIES = ("numba", "polars", "scipy.optimize", "scipy.stats", "sklearn.metrics", "torch", "pytest")
PATIENCE, LEAST_SECONDS = 3, 12
TESTS: dict[str, list[str]] = tomllib.loads((ROOT / "benchmarks" / "mutants.toml").read_text())
SWAPS = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "FloorDiv": "Mul", "Mod": "FloorDiv", "Pow": "Mul", "BitOr": "BitAnd",
         "BitAnd": "BitOr", "Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt", "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot",
         "IsNot": "Is"}  # fmt: skip
OTHERS = re.compile(r"Number|ZeroIteration|AddNot|True|False|AndWithOr|OrWithAnd|Break|Continue|Unary|Delete_Not|USub")
Mutant = dict[str, Any]


def operators() -> dict[str, Any]:
    """Cosmic Ray's operators without those that nobody would write by mistake, such as ``<<`` for ``+``."""
    swaps = tuple(f"Replace{kind}Operator_{one}_{other}" for kind in ("Binary", "Comparison") for one, other in SWAPS.items())
    names = [name for name in plugins.operator_names() if name.endswith(swaps) or OTHERS.search(name)]
    return {name.split("/")[1]: plugins.get_operator(name)() for name in names}


def _is_shown(node: ast.AST) -> bool:
    """Annotations, decorators, texts, errors, and functions that make what is only shown."""
    if isinstance(node, ast.FunctionDef):
        returned = ast.unparse(node.returns) if node.returns else ""
        return node.name.startswith("__repr") or bool(re.search(r"\bstr\b|Claim|CardRow", returned))
    if isinstance(node, ast.Assign):
        name, texts = ast.unparse(node.targets[0]), any(isinstance(getattr(part, "value", None), str) for part in ast.walk(node.value))
        return name in ("measures", "figures", "papers", "__all__") or (name.isupper() and texts)  # of a module: words, axes of charts
    return isinstance(node, (ast.Raise, ast.JoinedStr)) or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"))


def _skipped(source: str) -> set[int]:
    """The lines that are left out."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        parts = [node] if _is_shown(node) else []
        parts += [part for name in ("annotation", "returns") if (part := getattr(node, name, None)) and not isinstance(node, ast.AnnAssign)]
        for part in [*parts, *getattr(node, "decorator_list", [])]:
            lines |= set(range(part.lineno, part.end_lineno + 1))
    return lines


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every change of a file: an operator of Cosmic Ray, and which of the places where it applies (``occurrence``)."""
    source = (ROOT / PACKAGE / file).read_text()
    skipped, lines, nodes = _skipped(source), source.splitlines(), list(trees.ast_nodes(trees.get_ast(source)))
    for name, operator in operators().items():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(places):
            if line not in skipped:
                before = lines[line - 1]
                where = column - len(before) + len(before.lstrip()), places[:occurrence].count((line, column))
                yield {"file": file, "line": line, "before": before.strip(), "operator": name, "where": where, "occurrence": occurrence}


def changed(mutant: Mutant) -> str:
    """The source of its file with the change."""
    source = (ROOT / PACKAGE / mutant["file"]).read_text()
    return mutating.mutate_code(source, operators()[mutant["operator"]], mutant["occurrence"]) or source


def key(mutant: Mutant) -> tuple[str, ...]:
    """What a change stays known by when other lines move."""
    return mutant["file"], mutant["before"], mutant["operator"], str(list(mutant["where"]))


def tests_of(file: str) -> list[str]:
    return next((tests for beginning, tests in TESTS.items() if file.startswith(beginning)), [])


def _interpreted(file: str) -> set[str]:
    """The modules with a changed file: itself, and all that import it."""
    texts = {".".join(("attnaudit", *path.relative_to(ROOT / PACKAGE).with_suffix("").parts)): path.read_text()
             for path in (ROOT / PACKAGE).rglob("*.py")}  # fmt: skip
    found, more = set[str](), {".".join(("attnaudit", *Path(file).with_suffix("").parts))}
    while more:
        found |= more
        more = {name for name, text in texts.items() for one in more if f"from {one} import" in text} - found
    return found


def _run_tests(copy: Path, file: str, interpreted: set[str]) -> int:
    """In a process of its own: the tests of ``file`` in the copy; pytest's exit status."""
    os.chdir(copy)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    kernels: Any = importlib.import_module("attnaudit.core.kernels")
    kernels.SETTINGS.CACHE_DIR, compiled = str(kernels.code_folder(ROOT / PACKAGE)), kernels.kernel

    def kernel(function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda inner: kernel(inner, **options)
        return function if function.__module__ in interpreted else compiled(function, **options)

    kernels.kernel = kernel
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::RuntimeWarning"]
    return importlib.import_module("pytest").main([*quiet, *tests_of(file)])


def seconds_of(copy: Path, file: str, limit: int, log: Path) -> tuple[bool, float]:
    """Whether the tests of a file as it stands in the copy pass, and the CPU seconds that they took, at most ``limit``."""
    interpreted = _interpreted(file) if "@kernel" in (ROOT / PACKAGE / file).read_text() else set[str]()
    child = os.fork()
    if child == 0:
        status = 1  # whatever goes wrong, this process does not go on as its parent does
        try:
            with log.open("w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            status = int(_run_tests(copy, file, interpreted))
        except Exception:  # noqa: BLE001 - any error of the changed source
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    return status == 0, used.ru_utime + used.ru_stime


def tried(mutants: list[Mutant], copy: Path) -> Iterator[Mutant]:
    """Every change with its outcome; those of a file whose tests fail without any change are left out, and named."""
    limits, log = dict[str, int](), copy / "log.txt"
    for mutant in sorted(mutants, key=lambda mutant: mutant["file"]):
        file, path = mutant["file"], copy / PACKAGE / mutant["file"]
        if file not in limits:
            passed, seconds = seconds_of(copy, file, 600, log)
            limits[file] = int(PATIENCE * seconds + LEAST_SECONDS) if passed else 0
            print(f"{file}: {seconds:.0f} s" if passed else f"{file}: its tests fail as it is\n{log.read_text()[-2000:]}", flush=True)
        if limits[file]:
            path.write_text(changed(mutant))
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
                compiled.unlink()
            after = path.read_text().splitlines()[mutant["line"] - 1].strip()
            passed, seconds = seconds_of(copy, file, limits[file], log)
            shutil.copyfile(ROOT / PACKAGE / file, path)
            print(f"{'SURVIVED' if passed else 'killed'}, {seconds:.0f} s, {file}:{mutant['line']}: {after}", flush=True)
            yield {**mutant, "after": after, "outcome": "survived" if passed else "killed"}


def page(records: list[Mutant]) -> str:
    """docs/mutants.md: the share killed, by folder, and every survivor with its reason."""
    counted = [mutant for mutant in records if not mutant.get("reason", "").startswith("equivalent")]
    killed = [mutant for mutant in counted if mutant["outcome"] == "killed"]
    first = [mutant for mutant in killed if "reason" not in mutant]
    interval = importlib.import_module("attnaudit.stats.inference").wilson_interval
    shares = [f"{len(some) / max(len(counted), 1):.1%} [{low:.1%}, {high:.1%}]"
              for some in (first, killed) for low, high in [interval(len(some), len(counted))]]  # fmt: skip
    folders, killed_in = (Counter(mutant["file"].split("/")[0] for mutant in some) for some in (counted, killed))
    lines = [
        "# Mutation tests", "", "Made by `make mutants` from [mutants.jsonl](mutants.jsonl); method: `benchmarks/mutants.py`.", "",
        f"{len(records)} changes of the source were tried; {len(records) - len(counted)} are equivalent. Of the other {len(counted)} the "
        f"tests killed {len(first)} when first tried, {shares[0]}, and kill {len(killed)} now, {shares[1]} (Wilson's 95 % intervals). The "
        "share at first is that of changes not yet tried; the share now includes tests written for survivors.", "",
        "| folder | changes | killed |", "|---|---|---|",
        *(f"| {folder} | {count} | {killed_in[folder]} |" for folder, count in sorted(folders.items())), "",
        "Changes that survive, and those that did until a test was added:", "",
        "| place | outcome | before | after | reason |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for mutant in records:
        if mutant["outcome"] == "survived" or "reason" in mutant:
            place, texts = f"{mutant['file']}:{mutant['line']}", [f"`{mutant[name]}`" for name in ("before", "after")]
            cells = [place, mutant["outcome"], *texts, mutant.get("reason", "open")]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose names begin so")
    chosen = parser.parse_args()
    for name in LIBRARIES:
        importlib.import_module(name)
    known = {key(mutant): mutant for mutant in map(json.loads, RECORDS.read_text().splitlines() if RECORDS.exists() else [])}
    files = [path.relative_to(ROOT / PACKAGE).as_posix() for path in sorted((ROOT / PACKAGE).rglob("*.py"))]
    every = {key(mutant): mutant for file in files if tests_of(file) and file.startswith(chosen.only) for mutant in mutants_of(file)}
    again = [every[k] for k, mutant in known.items() if mutant["outcome"] == "survived" and "reason" not in mutant and k in every]
    fresh = [mutant for k, mutant in every.items() if k not in known]
    drawn = random.Random(chosen.seed).sample(fresh, min(chosen.number, len(fresh)))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        for part in ("src", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / file, copy / file)
        for mutant in tried(again + drawn, copy):
            known[key(mutant)] = {**known.get(key(mutant), {}), **mutant}
            RECORDS.write_text("".join(json.dumps(known[k], ensure_ascii=False) + "\n" for k in sorted(known)))
    PAGE.write_text(page(list(known.values())))


if __name__ == "__main__":
    main()
