"""Studies whose pages are not what a test is about."""

import pytest


def no_page(folder, metadata, notes=(), page=None):
    """In place of the real pages, whose charts take seconds."""
    page = page or folder / "report.html"
    page.write_text("page")
    return page


@pytest.fixture
def no_pages(monkeypatch):
    monkeypatch.setattr("attnaudit.report.study_page.write_study", no_page)
    monkeypatch.setattr("attnaudit.report.study_page.write_studies", no_page)
    monkeypatch.setattr(
        "attnaudit.report.run_page.write_report",
        lambda folder, trace, page: no_page(folder, trace, page=page),
    )
