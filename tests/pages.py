"""Runs whose page is not what a test is about: in its place the summary, as its charts take seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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
