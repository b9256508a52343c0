"""Reports: the verdict card, the comparison with published numbers, and the page that shows everything."""

from __future__ import annotations

from attnaudit.published.compare import compare
from attnaudit.report.card import Card, verdict
from attnaudit.report.fragment import playground
from attnaudit.report.run_page import write_report

__all__ = ["Card", "compare", "playground", "verdict", "write_report"]
