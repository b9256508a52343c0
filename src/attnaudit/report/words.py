"""Numbers, degrees, heads and lists as people read them."""

import re
from collections.abc import Iterable, Sequence

from attnaudit.core import count
from attnaudit.results import TEXT, Head, Heads, Row
from attnaudit.results.summary import POSITION
from attnaudit.stats.measures import LN2

# Shares of ln 2. A quarter is where the verdict begins to call attentions different.
_DIFFERENT = ((0.05, "very little"), (0.25, "a little"), (0.5, "clearly"), (0.8, "very much"))
_TEXT = re.compile(r"\btext(?=s?\b)", re.IGNORECASE)


def figure(value: float | None, places: int = 2) -> str:
    """Write a number as ``0.35``, ``−0.02`` or ``undefined``."""
    if value is None or value != value:
        return "undefined"
    text = f"{value:.{places}f}"
    # A number that rounds to 0 has no sign; others get a minus sign in place of a hyphen.
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def amount(value: float, places: int = 2) -> str:
    """Write a number that is not negative; one that would round to 0 as ``less than 0.01``."""
    least = 10**-places
    return f"less than {least:g}" if 0 < value < least / 2 else figure(value, places)


def interval(row: Row, places: int = 2) -> str:
    """Write a row's interval as ``[0.34, 0.36]``; empty if it has none."""
    low, high = row.get("low"), row.get("high")
    return "" if low is None or high is None else f"[{figure(low, places)}, {figure(high, places)}]"


def with_interval(row: Row, places: int = 2) -> str:
    """Write a row's value with its interval: ``0.35 [0.34, 0.36]``."""
    return f"{figure(row['value'], places)} {interval(row, places)}".rstrip()


def percent(share: float) -> str:
    """Write a share as ``82 %``, without rounding to none or to all."""
    if 0 < share < 0.005:
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    # Rounded to two places first, as `figure` rounds.
    return f"{100 * float(f'{share:.2f}'):.0f} %"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Join names as ``a, b and c``."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def of_unit(text: str, unit: str) -> str:
    """Replace the word text by another unit, in a sentence of this package without user names."""
    if unit == TEXT:
        return text
    return _TEXT.sub(lambda match: unit if match[0].islower() else unit.capitalize(), text)


def degree(ladder: Sequence[tuple[float, str]], value: float, above: str) -> str:
    """Return the word of the first step (upper end, word) that the value is below."""
    return next((word for bound, word in ladder if value < bound), above)


def difference(divergence: float) -> str:
    """Say how much two attentions of this JSD differ: ``very much``."""
    return degree(_DIFFERENT, divergence / LN2, "almost as much as two attentions can")


def name_head(head: Head) -> str:
    """Name a head: ``head 1 of layer 3``."""
    return f"head {head[1]} of layer {head[0]}"


def name_heads(heads: Iterable[Head]) -> str:
    """Count heads: ``4 heads of layer 3``, ``16 heads of 4 layers``."""
    named = list(heads)
    if len(named) == 1:
        return name_head(named[0])
    layers = {layer for layer, _ in named}
    of = f"layer {named[0][0]}" if len(layers) == 1 else count(len(layers), "layer")
    return f"{count(len(named), 'head')} of {of}"


def describe_heads(heads: Heads) -> str:
    """Count texts, heads and rows: ``500 texts, 4 heads of layer 3: 2000 rows``."""
    positions = f" at {count(heads.positions, POSITION)}" if heads.unit == POSITION else ""
    texts = f"{count(heads.texts, 'text')}{positions}"
    return f"{texts}, {name_heads(heads.names)}: {count(heads.rows, 'row')}"


def row_of_heads(heads: Heads) -> str:
    """Say what a row of a model with heads is."""
    return f"{'a position of a text' if heads.unit == POSITION else 'a text'} under one head"


def anchor(head: Head) -> str:
    """Return the fragment of a page's address that names a head."""
    return f"head-{head[0]}-{head[1]}"
