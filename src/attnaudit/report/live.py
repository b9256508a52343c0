"""The pages that only a server shows: the list of its runs, and one where a sentence is typed."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnaudit.report.page import Section, page_text
from attnaudit.report.sections.playground import SCRIPTS, STYLES
from attnaudit.results import TEXT

ASKS = "; connect-src 'self'"  # what the policy of `typing_page` allows besides its scripts


def start_page(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of the runs.

    Args:
        entries: Number, name, verdict, corpus and model of each run, and why no sentence can be
            typed for it, if none can.
    """
    sections = [Section("live_start", {"entries": entries})]
    return page_text(sections, "Attention audits", "Served only to this machine.")


def typing_page(name: str, has_question: bool, epsilon: float) -> str:
    """Return the page where a sentence is typed, with its playground."""
    scripts = (*SCRIPTS, "sections/live.js")
    content = {"reason": None, "epsilon": epsilon, "unit": TEXT}
    sections = [
        Section("live_type", {"has_question": has_question}),
        Section("playground", content, scripts=scripts, styles=STYLES),
    ]
    title, subtitle, back = (
        "Type a sentence",
        f"Read by the model of {name}.",
        ("All runs", "../../"),
    )
    return page_text(sections, title, subtitle, links=[back], allows=ASKS)
