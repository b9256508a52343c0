"""The pages that only a server shows: the list of its runs, and the one where a sentence is typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnaudit.report.page import Section, page_text
from attnaudit.report.sections.playground import SCRIPTS


def start_page(entries: Sequence[Mapping[str, Any]]) -> str:
    """The runs: number, name, corpus, model, and why no sentence can be typed, where none can."""
    return page_text(
        [Section("live_start", {"entries": entries})],
        "Attention audits",
        "Served to this machine alone.",
    )


def typing_page(name: str, has_question: bool, epsilon: float) -> str:
    """Where a sentence is typed, and the playground of it."""
    content = {
        "reason": None, "unit": "instance", "epsilon": epsilon, "rest": True, "left_out": 0, "further": 0, "has_question": has_question,
    }  # fmt: skip
    sections = [
        Section("live_type", content),
        Section(
            "playground", content, scripts=(*SCRIPTS, "live_type.js"), styles=("playground.css",)
        ),
    ]
    return page_text(
        sections,
        "Type a sentence",
        f"Read by the model of {name}.",
        links=[("All runs", "../../")],
        connects=True,
    )
