"""Studies whose pages are not what a test is about."""

from pathlib import Path

import pytest


def no_page(folder: Path, metadata: object, notes: object = (), page: Path | None = None) -> Path:
    """In place of the real pages, whose charts take seconds."""
    page = page or folder / "report.html"
    page.write_text("page")
    return page


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnaudit.report.study_page.write_study", no_page)
    monkeypatch.setattr("attnaudit.report.study_page.write_studies", no_page)
    monkeypatch.setattr(
        "attnaudit.report.run_page.write_report",
        lambda folder, trace, page: no_page(folder, trace, page=page),
    )
