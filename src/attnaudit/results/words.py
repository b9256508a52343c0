"""Numbers as people read them, and degrees in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import log
from typing import Any

_DIFFERENT = ((0.05, "very little"), (0.25, "a little"), (0.5, "clearly"), (0.8, "very much"))
LN2 = log(2.0)
INSTANCE, ROW, TEXT, POSITION = "instance", "row", "text", "position"
"""What a number is a mean over: where a text has a row for each head, or for each of several positions, a row is no text."""
_INSTANCE = re.compile(r"\b(an )?(i)nstance(s?)\b", re.IGNORECASE)


def figure(value: float | None, places: int = 2) -> str:
    """``0.35``, ``−0.02``, or ``undefined``."""
    if value is None or value != value:
        return "undefined"
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def amount(value: float, places: int = 2) -> str:
    """``0.35``, of a number that is not negative; ``less than 0.01`` where `figure` would say ``0.00`` of a number above 0."""
    least = 10**-places
    return f"less than {least:g}" if 0 < value < least / 2 else figure(value, places)


def interval(row: Mapping[str, Any], places: int = 2) -> str:
    """``[0.34, 0.36]`` of a row's ``low`` and ``high``; empty where there is none."""
    low, high = row.get("low"), row.get("high")
    return "" if low is None or high is None else f"[{figure(low, places)}, {figure(high, places)}]"


def percent(share: float) -> str:
    """``82 %``; ``under 1 %`` and ``over 99 %`` where rounding would say none or all."""
    if 0 < share < 0.005:
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * float(f'{share:.2f}'):.0f} %"  # rounded as `figure` rounds


def of_unit(text: str, unit: str) -> str:
    """A text of this package about instances, said of another ``unit``. Not for texts with names of a user in them."""
    if unit == INSTANCE:
        return text

    def said(found: re.Match[str]) -> str:
        article, first, plural = found.groups()
        word = unit.capitalize() if first == "I" else unit
        return f"{'' if article is None else article.replace('n', '')}{word}{plural}"

    return _INSTANCE.sub(said, text)


def difference(divergence: float) -> str:
    """How much two attentions of this Jensen-Shannon divergence, at most ln 2, differ: ``very much``."""
    return degree(_DIFFERENT, divergence / LN2, "almost as much as two attentions can")


def degree(ladder: Sequence[tuple[float, str]], value: float, above: str) -> str:
    """The word of the first step of ``ladder`` (upper end, word) that ``value`` is below, else ``above``."""
    return next((word for bound, word in ladder if value < bound), above)
