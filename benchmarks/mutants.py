"""Mutation tests: one small change of the source at a time, which a test of that file must notice.

    python -m benchmarks.mutants [--number 40] [--seed 0] [--only FILES]

Cosmic Ray makes the changes, in a copy of the checkout. A run tries every change again that
survived and has no reason, then ``--number`` more, drawn at random from those never tried, and
writes the outcome of each to docs/research/mutants.jsonl, in random order: what a run that is
stopped has tried is a fair sample too. A person adds the ``reason`` of a survivor there:
"equivalent: …", or the test that now fails. docs/research/mutants.md is made from that file, which
loses the changes of lines that are gone. Annotations, decorators, texts and errors are not changed.

benchmarks/mutants.toml lists the tests of each file. Each change runs in a process forked from one
that has imported the libraries. A change whose tests take `PATIENCE` times the CPU time that they
take without it counts as killed: its loop does not end.
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
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from cosmic_ray import ast as trees
from cosmic_ray import mutating, plugins

ROOT = Path(__file__).parents[1]
RECORDS, PAGE = (
    ROOT / "docs" / "research" / "mutants.jsonl",
    ROOT / "docs" / "research" / "mutants.md",
)
PACKAGE = Path("src/attnaudit")
COPIED = ("src", "tests", "docs", "benchmarks")
LIBRARIES = ("numba", "polars", "scipy.optimize", "scipy.stats", "sklearn.metrics", "torch")
PATIENCE, LEAST_SECONDS, MOST_SECONDS = 3, 12, 600
QUIET = (
    *("-x", "-q", "-pno:cacheprovider", "-pno:xdist"),
    *("-Wignore::RuntimeWarning", "-Wignore::pytest.PytestAssertRewriteWarning"),
)
TESTS: dict[str, list[str]] = tomllib.loads((ROOT / "benchmarks" / "mutants.toml").read_text())
# Mistakes that a person could make, unlike ``<<`` for ``+``.
SWAPS = re.compile(
    r"Operator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_FloorDiv|Pow_Mul|BitOr_BitAnd"
    r"|BitAnd_BitOr|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)$"
    r"|Number|ZeroIteration|AddNot|True|False|AndWithOr|OrWithAnd|Break|Continue|Unary|Delete_Not"
)
Mutant = dict[str, Any]


@cache
def operators() -> dict[str, Any]:
    """Return Cosmic Ray's operators by name."""
    names = (name for name in plugins.operator_names() if SWAPS.search(name))
    return {name.split("/")[1]: plugins.get_operator(name)() for name in names}


def skipped_lines(source: str) -> set[int]:
    """Return the lines of annotations, decorators, errors and texts."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        parts = [*getattr(node, "decorator_list", []), getattr(node, "returns", None)]
        # The annotation of an assignment shares its line with the value.
        if not isinstance(node, ast.AnnAssign):
            parts.append(getattr(node, "annotation", None))
        if isinstance(node, ast.Module | ast.ClassDef):
            parts += [part for part in node.body if isinstance(part, ast.Assign) and _texts(part)]
        returned = getattr(getattr(node, "returns", None), "id", None)
        if returned == "str" or isinstance(node, ast.Raise | ast.JoinedStr):
            parts.append(node)
        for part in filter(None, parts):
            lines |= set(range(part.lineno, part.end_lineno + 1))
    return lines


def _texts(node: ast.AST) -> bool:
    return any(isinstance(getattr(part, "value", None), str) for part in ast.walk(node))


def mutants_of(file: str) -> Iterator[Mutant]:
    """Yield every change of a file: an operator, and which of its places (``occurrence``)."""
    source = (ROOT / PACKAGE / file).read_text()
    skipped, lines = skipped_lines(source), source.splitlines()
    nodes = list(trees.ast_nodes(trees.get_ast(source)))
    for name, operator in operators().items():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(places):
            if line not in skipped:
                before = lines[line - 1]
                indent = len(before) - len(before.lstrip())
                where = (column - indent, places[:occurrence].count((line, column)))
                mutant = {"file": file, "line": line, "before": before.strip(), "operator": name}
                yield {**mutant, "where": where, "occurrence": occurrence}


def changed(mutant: Mutant) -> str:
    """Return the source of a mutant's file with the change."""
    source = (ROOT / PACKAGE / mutant["file"]).read_text()
    operator = operators()[mutant["operator"]]
    return mutating.mutate_code(source, operator, mutant["occurrence"]) or source


def key(mutant: Mutant) -> tuple[str, ...]:
    """Return the identity of a change, which stays when other lines move."""
    return mutant["file"], mutant["before"], mutant["operator"], str(list(mutant["where"]))


def tests_of(file: str) -> list[str]:
    """Return the tests of a file, or none."""
    return next((tests for start, tests in TESTS.items() if file.startswith(start)), [])


def all_mutants() -> Iterator[Mutant]:
    """Yield every change of every file that has tests."""
    package = ROOT / PACKAGE
    for path in sorted(package.rglob("*.py")):
        if tests_of(file := path.relative_to(package).as_posix()):
            yield from mutants_of(file)


def run_tests(copy: Path, tests: Iterable[str], limit: int) -> tuple[bool, float]:
    """Run tests of the copy in a fork; return whether they pass, and their CPU seconds."""
    child = os.fork()
    if child == 0:
        status = 1  # whatever goes wrong, this process does not go on as its parent does
        try:
            with (copy / "log.txt").open("w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            os.chdir(copy)
            sys.path[:0] = [str(copy / "src"), str(copy)]
            # Commands that tests start import the copy too, not the installed package.
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
            status = int(importlib.import_module("pytest").main([*QUIET, *tests]))
            names = [
                name
                for name, module in sys.modules.items()
                if str(copy) not in str(getattr(module, "__file__", copy))
            ]
            (copy / "imported.txt").write_text("\n".join(names))
        except Exception:  # noqa: BLE001 - any error of the changed source
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    return status == 0, used.ru_utime + used.ru_stime


def limit_of(copy: Path, tests: list[str]) -> int:
    """Return the CPU seconds that tests may take with a change; 0 if they fail without one."""
    # What the tests import is imported here, so that each fork has it.
    run_tests(copy, ["--collect-only", *tests], MOST_SECONDS)
    for name in (copy / "imported.txt").read_text().split():
        with suppress(ImportError):
            importlib.import_module(name)
    passed, seconds = run_tests(copy, tests, MOST_SECONDS)
    log = "" if passed else f" fail\n{(copy / 'log.txt').read_text()[-2000:]}"
    print(f"{seconds:.0f} s: {' '.join(tests)}{log}", flush=True)
    return int(PATIENCE * seconds + LEAST_SECONDS) if passed else 0


def try_all(mutants: Iterable[Mutant], copy: Path) -> Iterator[Mutant]:
    """Yield every change with its outcome, but those of files whose tests fail without any."""
    limits = dict[tuple[str, ...], int]()
    for mutant in mutants:
        file, tests = mutant["file"], tests_of(mutant["file"])
        if tuple(tests) not in limits:
            limits[tuple(tests)] = limit_of(copy, tests)
        if not limits[tuple(tests)]:
            continue
        path = copy / PACKAGE / file
        path.write_text(changed(mutant))
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        after = path.read_text().splitlines()[mutant["line"] - 1].strip()
        passed, seconds = run_tests(copy, tests, limits[tuple(tests)])
        shutil.copyfile(ROOT / PACKAGE / file, path)
        outcome = "survived" if passed else "killed"
        print(f"{outcome}, {seconds:.0f} s, {file}:{mutant['line']}: {after}", flush=True)
        yield {**mutant, "after": after, "outcome": outcome, "commit": f"commit {_commit()}"}


@cache
def _commit() -> str:
    # In another process: this one must import nothing of the package, whose copy its forks import.
    program = "from attnaudit.recipes.reproduction.records import commit; print(commit())"
    asked = [sys.executable, "-c", program]
    return subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def page(records: list[Mutant]) -> str:
    """Write the page: the share killed, by sample, and the changes that survive."""
    wilson_interval = importlib.import_module("attnaudit.stats.inference").wilson_interval

    def row(name: str, some: list[Mutant]) -> str:
        counted = [one for one in some if not is_equivalent(one)]
        now = sum(one["outcome"] == "killed" for one in counted)
        first = sum(one["outcome"] == "killed" and "reason" not in one for one in counted)
        cells = [name, len(some), len(some) - len(counted)]
        for killed in (first, now):
            low, high = wilson_interval(killed, len(counted))
            share = killed / max(len(counted), 1)
            cells.append(f"{killed}, {share:.1%} [{low:.1%}, {high:.1%}]")
        return f"| {' | '.join(map(str, cells))} |"

    samples = dict[str, list[Mutant]]()
    for one in records:
        seed = f"seed {one['seed']}" if "seed" in one else "earlier"
        samples.setdefault(f"{seed}, {one['commit']}", []).append(one)
    lines = [
        "# Mutation tests\n\nMade by `make mutants N=NUMBER SEED=SEED ONLY=FILES` from "
        "[mutants.jsonl](mutants.jsonl); method: `benchmarks/mutants.py`.\n",
        "Do the tests notice a random change of the source? A mutant is one such change, and is "
        "killed if a test of its file fails. Those of lines that still exist are counted. "
        "Equivalent ones change no result, as those of memory budgets: a person marks them, with "
        "the reason, and no share counts them. The share at first is the estimate for new "
        "changes; the other one includes tests written for survivors. Brackets are Wilson's 95 % "
        "intervals.\n",
        "| sample | mutants | equivalent | killed at first | killed now |\n|---|---|---|---|---|",
        *(row(*sample) for sample in sorted(samples.items(), reverse=True)),
        "\nMutants that survive:\n\n| place | changed line | reason |\n|---|---|---|",
    ]
    for one in records:
        # Equivalent ones of earlier records are in the file only.
        if one["outcome"] == "survived" and ("seed" in one or not is_equivalent(one)):
            place, reason = f"{one['file']}:{one['line']}", one.get("reason", "open")
            cells = (place, f"`{one['after']}`", reason)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def is_equivalent(mutant: Mutant) -> bool:
    """Tell whether a person found that a change alters no result."""
    return mutant.get("reason", "").startswith("equivalent")


def main() -> None:
    """Try changes and write their records and the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="starts of file names, separated by spaces")
    options = parser.parse_args()
    for name in LIBRARIES:
        importlib.import_module(name)
    present = {key(mutant): mutant for mutant in all_mutants()}
    known = {key(mutant): mutant for mutant in map(json.loads, RECORDS.read_text().splitlines())}
    known = {k: {**mutant, **present[k]} for k, mutant in known.items() if k in present}
    asked = tuple(options.only.split()) or ""
    chosen = {k: mutant for k, mutant in present.items() if mutant["file"].startswith(asked)}
    fresh = [mutant for k, mutant in chosen.items() if k not in known]
    drawn = random.Random(options.seed).sample(fresh, min(options.number, len(fresh)))
    drawn = [{**mutant, "seed": options.seed} for mutant in drawn]
    for k, mutant in known.items():
        if k in chosen and mutant["outcome"] == "survived" and "reason" not in mutant:
            drawn.append(chosen[k])
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        for part in COPIED:
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / file, copy / file)
        for mutant in try_all(drawn, copy):
            known[key(mutant)] = {**known.get(key(mutant), {}), **mutant}
            records = (json.dumps(known[k], ensure_ascii=False) for k in sorted(known))
            RECORDS.write_text("\n".join(records) + "\n")
    PAGE.write_text(page([known[k] for k in sorted(known)]))


if __name__ == "__main__":
    main()
