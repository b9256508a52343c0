"""Runs whose page is not what a test is about: in its place the summary, as its charts take seconds; and runs with few experiments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attnaudit.experiments import EXPERIMENTS

EVERY = dict(EXPERIMENTS.items())
FEW = ("prediction", "correlation", "permutation", "adversary")


def write_summary_page(folder: Path, trace: Path | None, page: Path) -> Path:
    """In place of `attnaudit.report.write_report`."""
    page.write_text(f"<pre>{(folder / 'summary.json').read_text()}</pre>")
    return page


@contextmanager
def summaries_as_pages() -> Iterator[None]:
    """Within, runs and audits write no charts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.report.write_report", write_summary_page)
        yield


@contextmanager
def experiments(*names: str) -> Iterator[None]:
    """Within, there are these experiments alone, such as a `FEW` for runs whose results are not what a test is about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EXPERIMENTS, "_entries", {name: EVERY[name] for name in names})
        yield
