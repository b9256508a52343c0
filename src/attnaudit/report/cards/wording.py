"""Sentences that several cards share."""

from __future__ import annotations

from attnaudit.results.card import SummaryRows
from attnaudit.results.words import percent


def of_kept_words(rows: SummaryRows) -> str:
    """For card rows of a translator: its output in a trace is not the distribution over its whole vocabulary."""
    covered = rows.value("translation", "covered")
    return (
        ""
        if covered is None
        else (
            f" The output here is the distribution over the few words that the trace keeps per row, which hold {percent(covered)} of the "
            "model's probability."
        )
    )
