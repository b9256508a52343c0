"""How figures are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def figure(value: float | None, places: int = 2) -> str:
    """``0.35``, ``−0.02``, or ``undefined``."""
    if value is None or value != value:
        return "undefined"
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


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


def thousands(number: int) -> str:
    """``1725``, ``25,000``."""
    return f"{number:,}" if number >= 10_000 else str(number)


def count(number: int, noun: str) -> str:
    """``1 instance``, ``1725 instances``."""
    return f"{thousands(number)} {noun}{'' if number == 1 else 's'}"
