"""Runs whose page is not what a test is about: in its place the summary, as its charts take seconds; and runs with few experiments."""

from contextlib import contextmanager
from functools import cache

import pytest

FEW = ("prediction", "correlation", "permutation", "adversary")


def write_summary_page(folder, trace, page):
    """In place of `attnaudit.report.run_page.write_report`."""
    page.write_text(f"<pre>{(folder / 'summary.json').read_text()}</pre>")
    return page


@contextmanager
def summaries_as_pages():
    """Within, runs and audits write no charts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.report.run_page.write_report", write_summary_page)
        yield


@cache
def registered():
    """Every experiment, by name. Modules are imported here and not before `conftest` has them checked."""
    from attnaudit.experiments import EXPERIMENTS

    return dict(EXPERIMENTS.items())


@contextmanager
def experiments(*names):
    """Within, there are these experiments alone, such as a `FEW` for runs whose results are not what a test is about; by default all."""
    every = registered()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "attnaudit.experiments.EXPERIMENTS._entries",
            {name: every[name] for name in names or every},
        )
        yield
