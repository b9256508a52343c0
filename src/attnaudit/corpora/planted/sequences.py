"""Sequences of symbols to be copied, generated when they are needed, and what to write for each (Snell et al. 2021; Pruthi et al. 2020).

The source is of symbols 0 … n − 1. What is written is of the same symbols, and n ends both sides (``shared``), or of other ones, one for
each, n … 2n − 1. The last number of the vocabulary begins what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.random import below, stream_keys

Symbols = Int64[np.ndarray, "rows length"]
Written = Int64[np.ndarray, "rows positions"]  # with the symbol that ends them, where there is one
SYMBOLS = {
    "permutations": 40,
    "distinct": 60,
    "iid": 40,
}  # kinds of source, and of how many symbols they are in the paper
LENGTH = 40


@dataclass(frozen=True)
class Sequences:
    """Sources of ``length`` symbols out of ``symbols``: all of them once, distinct ones, or each drawn independently (``iid``).

    ``shared``: both sides have the same symbols, and end with another one. Raises InputError.
    """

    kind: str
    length: int = LENGTH
    symbols: int = LENGTH
    shared: bool = False

    def __post_init__(self) -> None:
        if self.kind not in SYMBOLS:
            raise InputError(
                "make sequences",
                "kind",
                repr(self.kind),
                f"one of {', '.join(SYMBOLS)}",
                did_you_mean(self.kind, SYMBOLS),
            )
        for expected, wrong in {
            "1 or more of both": min(self.length, self.symbols) < 1,
            "as many symbols as positions": self.kind == "permutations"
            and self.symbols != self.length,
            "no fewer symbols than positions": self.kind == "distinct"
            and self.symbols < self.length,
        }.items():
            if wrong:
                raise InputError(
                    "make sequences",
                    self.kind,
                    f"length {self.length} of {self.symbols} symbols",
                    expected,
                )

    @property
    def vocabulary(self) -> int:
        """Symbols of both sides, the one that ends them where there is one, and the one that begins what is written."""
        return self.symbols + 2 if self.shared else 2 * self.symbols + 1

    @property
    def begin(self) -> int:
        return self.vocabulary - 1

    @property
    def positions(self) -> int:
        """Positions of a source, and of what is written: those of symbols, and of the end where there is one."""
        return self.length + self.shared

    def draw(self, seed: int, purpose: str, first: int, count: int) -> Symbols:
        """Draw the rows from ``first`` on of the endless table of a seed and a purpose.

        Each row is drawn without the ones before it.
        """
        keys = stream_keys(seed, f"copying/{purpose}", np.arange(first, first + count))[:, None]
        place = np.arange(self.length)
        if self.kind == "iid":
            return below(keys, place, self.symbols)
        others = place + below(keys, place, self.symbols - place)
        pool = np.tile(np.arange(self.symbols), (count, 1))
        rows = np.arange(count)
        for t in place:  # the first exchanges of a shuffle (Fisher & Yates)
            pool[rows, t], pool[rows, others[:, t]] = pool[rows, others[:, t]], pool[rows, t]
        return pool[:, : self.length]

    def pair(self, rows: Symbols, target: str = "copy") -> tuple[Written, Written]:
        """Sources and what is to be written of them (`TARGETS`), ``(rows, positions)`` both."""
        made = TARGETS[target](rows)
        if not self.shared:
            return rows, made + self.symbols
        end = np.full((len(rows), 1), self.symbols)
        return np.hstack([rows, end]), np.hstack([made, end])

    def right_positions(self, target: str = "copy") -> Int64[np.ndarray, " positions"]:
        """For each position that is written, the source position of its symbol; for the end, that of the end."""
        return np.append(
            right_positions(target, self.length), np.arange(self.length, self.positions)
        )


def bigram_flip(rows: Symbols) -> Symbols:
    """The two symbols of each pair swapped; the last of an odd number stays."""
    even = rows.shape[1] // 2 * 2
    flipped = rows.copy()
    flipped[:, 0:even:2], flipped[:, 1:even:2] = rows[:, 1:even:2], rows[:, 0:even:2]
    return flipped


TARGETS: dict[str, Callable[[Symbols], Symbols]] = {
    "copy": np.copy,
    "reverse": lambda rows: rows[:, ::-1].copy(),
    "bigram_flip": bigram_flip,
}


def right_positions(target: str, length: int) -> Int64[np.ndarray, " length"]:
    """For each position that is written, the source position of its symbol."""
    return TARGETS[target](np.arange(length)[None])[0]
