"""Mutation tests: one small change of the source at a time, which a test of that file must notice. ``make mutants N=40 SEED=0``.

Cosmic Ray makes the changes, in a copy of the checkout. A run first repeats every change that survived and has no reason, then tries ``N``
more, drawn at random from those never tried, and ``AGAIN`` of those killed at another commit, and writes the outcome of each to
docs/mutants.jsonl. A person adds the ``reason`` of a survivor there: "equivalent: …", or the test that now fails. docs/mutants.md is made
from that file. Annotations, decorators, texts, messages and functions of what is only shown are not changed (`_is_shown`).

Each change runs in a process of its own, forked from one that has imported the libraries. Python runs the kernels of a changed file,
instead of numba. What survives is tried by tests that Python would be too slow for. A change whose tests take more than `PATIENCE` times the CPU time that they take without it counts as
killed: its loop does not end. benchmarks/mutants.toml lists the tests of each file.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from cosmic_ray import ast as trees
from cosmic_ray import mutating, plugins

ROOT = Path(__file__).parents[1]
RECORDS, PAGE, PACKAGE = (
    ROOT / "docs" / "mutants.jsonl",
    ROOT / "docs" / "mutants.md",
    Path("src/attnaudit"),
)
LIBRARIES = (
    "numba",
    "polars",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.metrics",
    "torch",
    "pytest",
)
EARLIER = "commits up to 3f5efed, which recorded them"  # of changes that were tried before their commits were noted
PATIENCE, LEAST_SECONDS = 3, 12
QUIET = ["-x", "-q", *(f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist")),
         *(f"-Wignore::{kind}" for kind in ("RuntimeWarning", "pytest.PytestAssertRewriteWarning"))]  # fmt: skip
LISTS: dict[str, dict[str, list[str]]] = tomllib.loads(
    (ROOT / "benchmarks" / "mutants.toml").read_text()
)
SWAPS = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "FloorDiv": "Mul", "Mod": "FloorDiv", "Pow": "Mul", "BitOr": "BitAnd",
         "BitAnd": "BitOr", "Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt", "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot",
         "IsNot": "Is"}  # fmt: skip
OTHERS = re.compile(
    r"Number|ZeroIteration|AddNot|True|False|AndWithOr|OrWithAnd|Break|Continue|Unary|Delete_Not|USub"
)
Mutant = dict[str, Any]


def operators() -> dict[str, Any]:
    """Cosmic Ray's operators without those that nobody would write by mistake, such as ``<<`` for ``+``."""
    swaps = tuple(
        f"Replace{kind}Operator_{one}_{other}"
        for kind in ("Binary", "Comparison")
        for one, other in SWAPS.items()
    )
    names = [
        name for name in plugins.operator_names() if name.endswith(swaps) or OTHERS.search(name)
    ]
    return {name.split("/")[1]: plugins.get_operator(name)() for name in names}


def _is_shown(node: ast.AST) -> bool:
    """Annotations, decorators, texts, errors, and functions that make what is only shown."""
    if isinstance(node, ast.FunctionDef):
        returned = ast.unparse(node.returns) if node.returns else ""
        return node.name.startswith("__repr") or bool(re.search(r"\bstr\b|Claim|CardRow", returned))
    if isinstance(node, ast.Assign):
        name, texts = (
            ast.unparse(node.targets[0]),
            any(isinstance(getattr(part, "value", None), str) for part in ast.walk(node.value)),
        )
        return name in ("measures", "figures", "papers", "__all__") or (
            name.isupper() and texts
        )  # of a module: words, axes of charts
    return isinstance(node, (ast.Raise, ast.JoinedStr)) or (
        isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error")
    )


def _skipped(source: str) -> set[int]:
    """The lines that are left out."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        parts = [node] if _is_shown(node) else []
        parts += [
            part
            for name in ("annotation", "returns")
            if (part := getattr(node, name, None)) and not isinstance(node, ast.AnnAssign)
        ]
        for part in [*parts, *getattr(node, "decorator_list", [])]:
            lines |= set(range(part.lineno, part.end_lineno + 1))
    return lines


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every change of a file: an operator of Cosmic Ray, and which of the places where it applies (``occurrence``)."""
    source = (ROOT / PACKAGE / file).read_text()
    skipped, lines, nodes = (
        _skipped(source),
        source.splitlines(),
        list(trees.ast_nodes(trees.get_ast(source))),
    )
    for name, operator in operators().items():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(places):
            if line not in skipped:
                before = lines[line - 1]
                where = (
                    column - len(before) + len(before.lstrip()),
                    places[:occurrence].count((line, column)),
                )
                yield {
                    "file": file,
                    "line": line,
                    "before": before.strip(),
                    "operator": name,
                    "where": where,
                    "occurrence": occurrence,
                }


def changed(mutant: Mutant) -> str:
    """The source of its file with the change."""
    source = (ROOT / PACKAGE / mutant["file"]).read_text()
    return (
        mutating.mutate_code(source, operators()[mutant["operator"]], mutant["occurrence"])
        or source
    )


def key(mutant: Mutant) -> tuple[str, ...]:
    """What a change stays known by when other lines move."""
    return mutant["file"], mutant["before"], mutant["operator"], str(list(mutant["where"]))


def tests_of(file: str, way: str) -> list[str]:
    return next(
        (tests for beginning, tests in LISTS[way].items() if file.startswith(beginning)), []
    )


def tested(beginnings: str) -> list[str]:
    """The files whose name begins in one of these ways, separated by spaces, and that have tests; of none all files."""
    files = [
        path.relative_to(ROOT / PACKAGE).as_posix()
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    ]
    return [
        file
        for file in files
        if tests_of(file, "interpreted") and file.startswith(tuple(beginnings.split()) or "")
    ]


def _has_kernel(file: str) -> bool:
    return "@njit" in (ROOT / PACKAGE / file).read_text()


def _in_copy(copy: Path, interpreted: bool) -> None:
    """In a process of its own: import from the copy, with all kernels interpreted or compiled."""
    os.chdir(copy)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    importlib.import_module("numba").config.DISABLE_JIT = interpreted


def seconds_of(copy: Path, tests: list[str], interpreted: bool, limit: int) -> tuple[bool, float]:
    """Whether tests pass as the copy is, and the CPU seconds that they took, at most ``limit``."""
    child = os.fork()
    if child == 0:
        status = 1  # whatever goes wrong, this process does not go on as its parent does
        try:
            with (copy / "log.txt").open("w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            _in_copy(copy, interpreted)
            status = int(importlib.import_module("pytest").main([*QUIET, *tests]))
            imported = (
                name
                for name, module in sys.modules.items()
                if str(copy) not in str(getattr(module, "__file__", copy))
            )
            (copy / "imported.txt").write_text("\n".join(imported))
        except Exception:  # noqa: BLE001 - any error of the changed source
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    return status == 0, used.ru_utime + used.ru_stime


def preload(copy: Path, tests: list[str]) -> None:
    """Import the libraries that tests import, so that they are there in the process of every change."""
    seconds_of(copy, ["--collect-only", *tests], False, 600)
    for name in (copy / "imported.txt").read_text().split():
        with suppress(ImportError):
            importlib.import_module(name)


def stages_of(file: str) -> list[tuple[list[str], bool]]:
    """The tests of a file, and whether kernels are interpreted for them: first those of the file, then none."""
    stages = [
        (tests_of(file, "interpreted"), _has_kernel(file)),
        (tests_of(file, "compiled"), False),
    ]
    return [(tests, interpreted) for tests, interpreted in stages if tests]


def limits_of(copy: Path, file: str, known: dict[tuple[str, ...], int]) -> list[int]:
    """The CPU seconds that each stage of an unchanged file may take, 0 where a test fails; files with the same tests share them."""
    limits: list[int] = []
    for tests, interpreted in stages_of(file):
        which = (*tests, "(interpreted)" if interpreted else "")
        if which not in known:
            preload(copy, tests)
            passed, seconds = seconds_of(copy, tests, interpreted, 600)
            known[which] = int(PATIENCE * seconds + LEAST_SECONDS) if passed else 0
            print(
                f"{seconds:.0f} s: {' '.join(which)}",
                "" if passed else f"fail\n{(copy / 'log.txt').read_text()[-2000:]}",
                flush=True,
            )
        limits.append(known[which])
    return limits


def tried(mutants: list[Mutant], copy: Path) -> Iterator[Mutant]:
    """Every change with its outcome; those of a file whose tests fail without any change are left out, and named."""
    known = dict[tuple[str, ...], int]()
    for mutant in sorted(mutants, key=lambda mutant: mutant["file"]):
        file, path, used, passed = mutant["file"], copy / PACKAGE / mutant["file"], 0.0, True
        limits = limits_of(copy, file, known)
        if not all(limits):
            continue
        path.write_text(changed(mutant))
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        after = path.read_text().splitlines()[mutant["line"] - 1].strip()
        for (tests, interpreted), limit in zip(stages_of(file), limits, strict=True):
            if passed:
                passed, seconds = seconds_of(copy, tests, interpreted, limit)
                used += seconds
        shutil.copyfile(ROOT / PACKAGE / file, path)
        print(
            f"{'SURVIVED' if passed else 'killed'}, {used:.0f} s, {file}:{mutant['line']}: {after}",
            flush=True,
        )
        yield {
            **mutant,
            "after": after,
            "outcome": "survived" if passed else "killed",
            "commit": _commit(),
        }


@cache
def _commit() -> str:
    """The commit that is changed, asked in another process: this one must import nothing of the package before its forks do."""
    program = "from attnaudit.recipes.reproduction.records import commit; print(commit())"
    return subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def page(records: list[Mutant], gone: int) -> str:
    """docs/mutants.md: the share killed, by folder, and every survivor with its reason; ``gone`` are of lines that have changed since."""
    counted = [
        mutant for mutant in records if not mutant.get("reason", "").startswith("equivalent")
    ]
    killed = [mutant for mutant in counted if mutant["outcome"] == "killed"]
    first = [mutant for mutant in killed if "reason" not in mutant]
    interval = importlib.import_module("attnaudit.stats.inference").wilson_interval
    shares = [f"{len(some) / max(len(counted), 1):.1%} [{low:.1%}, {high:.1%}]"
              for some in (first, killed) for low, high in [interval(len(some), len(counted))]]  # fmt: skip
    folders, killed_in = (
        Counter(mutant["file"].split("/")[0] for mutant in some) for some in (counted, killed)
    )
    commits = Counter(mutant.get("commit", EARLIER) for mutant in records)
    lines = [
        "# Mutation tests", "",
        "Made by `make mutants N=NUMBER SEED=SEED ONLY=FILES` from [mutants.jsonl](mutants.jsonl); method: `benchmarks/mutants.py`. "
        f"Changes tried, by commit: {', '.join(f'{number} of {name}' for name, number in commits.items())}.", "",
        f"{len(records)} changes of the source were tried, {gone} of them in lines that have changed since; {len(records) - len(counted)} "
        f"are equivalent. Of the other {len(counted)} the "
        f"tests killed {len(first)} when first tried, {shares[0]}, and kill {len(killed)} now, {shares[1]} (Wilson's 95 % intervals). The "
        "first share estimates that of changes not yet tried; the second includes tests written for the survivors.", "",
        "| folder | changes | killed |", "|---|---|---|",
        *(f"| {folder} | {count} | {killed_in[folder]} |" for folder, count in sorted(folders.items())), "",
        "Changes that survive, and those that did until a test was added:", "",
        "| place | outcome | before | after | reason |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for mutant in records:
        if mutant["outcome"] == "survived" or "reason" in mutant:
            place, texts = (
                f"{mutant['file']}:{mutant['line']}",
                [f"`{mutant[name]}`" for name in ("before", "after")],
            )
            cells = [place, mutant["outcome"], *texts, mutant.get("reason", "open")]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument(
        "--again",
        type=int,
        default=0,
        help="how many of those killed at another commit to try once more",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="", help="files whose names begin so, several separated by spaces"
    )
    chosen = parser.parse_args()
    for name in LIBRARIES:
        importlib.import_module(name)
    known = {
        key(mutant): mutant
        for mutant in map(json.loads, RECORDS.read_text().splitlines() if RECORDS.exists() else [])
    }
    present, files = (
        {key(mutant): mutant for file in tested("") for mutant in mutants_of(file)},
        set(tested(chosen.only)),
    )
    every = {k: mutant for k, mutant in present.items() if mutant["file"] in files}
    again = [
        every[k]
        for k, mutant in known.items()
        if mutant["outcome"] == "survived" and "reason" not in mutant and k in every
    ]
    fresh = [mutant for k, mutant in every.items() if k not in known]
    old = [
        every[k]
        for k, mutant in known.items()
        if mutant["outcome"] == "killed" and mutant.get("commit") != _commit() and k in every
    ]
    draw = random.Random(chosen.seed)
    drawn = [
        *draw.sample(fresh, min(chosen.number, len(fresh))),
        *draw.sample(old, min(chosen.again, len(old))),
    ]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        for part in ("src", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / file, copy / file)
        for mutant in tried(again + drawn, copy):
            before = known.get(key(mutant), {})
            if (before.get("outcome"), mutant["outcome"]) == ("killed", "survived"):
                before.pop("reason", None)  # which said why it was killed
            known[key(mutant)] = {**before, **mutant}
            RECORDS.write_text(
                "".join(json.dumps(known[k], ensure_ascii=False) + "\n" for k in sorted(known))
            )
    PAGE.write_text(page(list(known.values()), len(known.keys() - present.keys())))


if __name__ == "__main__":
    main()
