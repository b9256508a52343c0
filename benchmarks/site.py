"""A site of 50 runs of 25,000 instances in a real browser: time to first paint, to the instances of a run, of filters and brushes.

    python benchmarks/site.py [--runs 50] [--instances 25000] [--keep DIR]

The runs are made here: one trace of random models is audited once; every run has its results with other noise, and settings of its own.
Times are the browser's own, the median and the largest of repeated interactions; a filter is timed from the event to the painted frame.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
from playwright.sync_api import Page, sync_playwright

from attnaudit.core.files import read_json, sha256, write_json, write_with_digest
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.site import site_into
from attnaudit.trace import write_shards
from benchmarks.made_up import made_up_shards
from benchmarks.output import print_header, print_row

EXPERIMENTS = ("prediction", "permutation", "correlation", "adversary")
REPEATS = 12
MODELS = [
    (encoder, attention)
    for encoder in ("bilstm", "cnn", "average", "lstm", "gru")
    for attention in ("additive", "dot")
]
FRAME = """(act) => new Promise((done) => {
  const start = performance.now();
  (0, eval)(act);
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
})"""
TYPE = """(() => {{
  const field = document.querySelector('{0}');
  field.value = '{1}';
  field.dispatchEvent(new Event('{2}', {{ bubbles: true }}));
}})()"""

PAINT = """() => new Promise((resolve) => {
  const seen = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const look = () => (seen() === undefined ? setTimeout(look, 5) : resolve(seen()));
  look();
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--instances", type=int, default=25_000)
    parser.add_argument(
        "--keep", type=Path, help="folder of the runs and the site, kept afterwards"
    )
    given = parser.parse_args()
    with _place(given.keep) as folder:
        runs = make_runs(folder / "runs", given.runs, given.instances)
        started = time.perf_counter(), time.process_time()
        index = site_into(runs, folder / "site")
        seconds = time.perf_counter() - started[0], time.process_time() - started[1]
        size = sum(path.stat().st_size for path in index.parent.rglob("*.js"))
        print(
            f"site of {given.runs} runs of {given.instances} instances: {seconds[0]:.0f} s ({seconds[1]:.0f} CPU s), "
            f"data {size / 2**20:.0f} MiB\n"
        )
        print_header(("what", "median (ms)", "largest (ms)", "expected"))
        for name, times, expected in measured(index):
            print_row([name, f"{statistics.median(times):.0f}", f"{max(times):.0f}", expected])


def make_runs(folder: Path, runs: int, instances: int) -> list[Path]:
    """Finished audits of one trace, each with results and settings of its own; those that are there are kept."""
    first = folder / "audit"
    if not (first / "manifest.json").exists():
        write_shards(folder / "trace", made_up_shards(instances, 20))
        audit_into(first, folder / "trace", EXPERIMENTS, {"permutation.permutations": 5})
    made = [
        folder
        / f"corpus-{MODELS[k % len(MODELS)][0]}-{MODELS[k % len(MODELS)][1]}-s{k // len(MODELS)}"
        for k in range(runs)
    ]
    for k, place in enumerate(made):
        if not (place / "manifest.json").exists():
            _copy(first, place, k)
    return made


def _copy(first: Path, place: Path, number: int) -> None:
    """The audit ``first`` as a run of another model, its measures with noise."""
    shutil.copytree(first, place)
    encoder, attention = MODELS[number % len(MODELS)]
    spec = {key: value for key, value in read_json(first / "spec.json").items() if key != "sha256"}
    write_with_digest(
        place / "spec.json",
        spec
        | {"model": {"encoder": encoder, "attention": attention}, "seed": number // len(MODELS)},
    )
    rng = np.random.default_rng(number)
    for path in (place / "results").glob("*.parquet"):
        table = pl.read_parquet(path)
        floats = [
            name
            for name, kind in table.schema.items()
            if kind == pl.Float64 and not name.startswith("p_")
        ]
        table.with_columns(
            pl.col(name) + pl.Series(0.02 * rng.standard_normal(table.height)) for name in floats
        ).write_parquet(path)
    summary = read_json(place / "summary.json")
    write_json(
        place / "summary.json",
        [
            row | {"value": row["value"] and row["value"] * (1 + 0.1 * rng.random())}
            for row in summary
        ],
    )
    manifest = read_json(place / "manifest.json")
    write_json(
        place / "manifest.json",
        manifest | {"files": {name: sha256(place / name) for name in manifest["files"]}},
    )


def measured(index: Path) -> Iterator[tuple[str, list[float], str]]:
    """What a reader waits for: its name, milliseconds, and what was expected."""
    with sync_playwright() as playwright:
        found = next(
            filter(
                None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))
            )
        )
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--headless"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        paints, ready = [], []
        for _ in range(5):
            page.goto("about:blank")
            page.goto(index.as_uri())
            page.wait_for_selector("body[data-shown=runs]")
            ready.append(page.evaluate("performance.now()"))
            # The runs may be there before the first frame.
            paints.append(page.evaluate(PAINT))
        yield "first paint of the runs", paints, "< 1,000"
        yield "the runs with the chosen measure", ready, "–"
        yield (
            "filter of the runs",
            [_timed(page, "select[name=attention]", value, "input") for value in ("dot", "") * 6],
            "< 100",
        )
        yield from _of_instances(page, index)
        browser.close()


def _of_instances(page: Page, index: Path) -> Iterator[tuple[str, list[float], str]]:
    opened = []
    for number in range(5):
        page.goto("about:blank")
        page.goto(f"{index.as_uri()}#view=instances&run=corpus-{'-'.join(MODELS[number])}-s0")
        page.wait_for_selector(".instances .open")
        opened.append(page.evaluate("performance.now()"))
    yield "the instances of a run, from the start of the page", opened, "–"
    words = [f"word{k}" for k in (1, 12, 123, 7, 77, 777, 3, 33, 333, 5, 55, 555)]
    yield (
        "filter by word",
        [_timed(page, "input[name=word]", word, "input") for word in words],
        "< 100",
    )
    page.evaluate(TYPE.format("input[name=word]", "", "input"))
    yield (
        "filter by class",
        [
            _timed(page, "select[name=predicted]", name, "input")
            for name in ("positive", "negative") * 6
        ],
        "< 100",
    )
    page.evaluate(TYPE.format("select[name=predicted]", "", "input"))
    ends = [f"{0.2 + k / 30:.3f}" for k in range(REPEATS)]
    place = '[id="chart-row.max_alpha"] input[name=to]'
    yield (
        "range of a measure (a brush)",
        [_timed(page, place, end, "change") for end in ends],
        "< 100",
    )
    place = '[id="chart-correlation.tau_gradient"] input[name=to]'
    yield "range of a second measure", [_timed(page, place, end, "change") for end in ends], "< 100"
    click = "document.querySelectorAll('.instances [data-sort]')[{0}].click()"
    yield (
        "another order",
        [page.evaluate(FRAME, click.format(4 + k % 4)) for k in range(REPEATS)],
        "–",
    )


def _timed(page: Page, field: str, value: str, event: str) -> float:
    return page.evaluate(FRAME, TYPE.format(field, value, event))


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


if __name__ == "__main__":
    main()
