"""Sequences of symbols to be copied (Snell et al. 2021; Pruthi et al. 2020), drawn when needed.

A source has symbols 0 to n − 1. What is written has other symbols, n to 2n − 1, or the same ones if
they are shared, and then n ends both sides. The last number of the vocabulary begins what is
written.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from attnaudit.core import InputError, require_known
from attnaudit.core.random import below, stream_keys

Symbols = Int64[np.ndarray, "rows length"]
Written = Int64[np.ndarray, "rows positions"]
SYMBOLS = {"permutations": 40, "distinct": 60, "iid": 40}  # of each kind of source in the paper
LENGTH = 40


@dataclass(frozen=True)
class Sequences:
    """Sources of so many symbols.

    Attributes:
        kind: All symbols once (``permutations``), ``distinct`` ones, or each drawn independently
            (``iid``).
        length: Symbols of a source.
        symbols: Number of different symbols.
        shared: Both sides have the same symbols, and end with another one.

    Raises:
        InputError: For an unknown kind, or lengths that it cannot have.
    """

    kind: str
    length: int = LENGTH
    symbols: int = LENGTH
    shared: bool = False

    def __post_init__(self) -> None:
        operation, length, symbols = "make sequences", self.length, self.symbols
        require_known(operation, "kind", self.kind, SYMBOLS)
        for expected, is_wrong in {
            "1 or more of both": min(length, symbols) < 1,
            "as many symbols as positions": self.kind == "permutations" and symbols != length,
            "no fewer symbols than positions": self.kind == "distinct" and symbols < length,
        }.items():
            if is_wrong:
                got = f"length {length} of {symbols} symbols"
                raise InputError(operation, self.kind, got, expected)

    @property
    def vocabulary(self) -> int:
        """Number of symbols of both sides, with those that end and begin them."""
        return self.symbols + 2 if self.shared else 2 * self.symbols + 1

    @property
    def begin(self) -> int:
        """The symbol that begins what is written."""
        return self.vocabulary - 1

    @property
    def positions(self) -> int:
        """Positions of a source and of what is written, with the end if there is one."""
        return self.length + self.shared

    def draw(self, seed: int, purpose: str, first: int, count: int) -> Symbols:
        """Draw ``count`` rows from ``first`` on of the endless table of a seed and a purpose."""
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
        """Return sources and what is to be written of them (`TARGETS`)."""
        made = TARGETS[target](rows)
        if not self.shared:
            return rows, made + self.symbols
        end = np.full((len(rows), 1), self.symbols)
        return np.hstack([rows, end]), np.hstack([made, end])

    def right_positions(self, target: str = "copy") -> Int64[np.ndarray, " positions"]:
        """Return the source position of each symbol that is written, the end included."""
        ends = np.arange(self.length, self.positions)
        return np.append(right_positions(target, self.length), ends)


def bigram_flip(rows: Symbols) -> Symbols:
    """Swap the two symbols of each pair; the last of an odd number stays."""
    even = rows.shape[1] // 2 * 2
    order = np.arange(rows.shape[1])
    order[:even] = order[:even].reshape(-1, 2)[:, ::-1].ravel()
    return rows[:, order]


TARGETS: dict[str, Callable[[Symbols], Symbols]] = {
    "copy": np.copy,
    "reverse": lambda rows: rows[:, ::-1].copy(),
    "bigram_flip": bigram_flip,
}


def right_positions(target: str, length: int) -> Int64[np.ndarray, " length"]:
    """Return the source position of each symbol that is written."""
    return TARGETS[target](np.arange(length)[None])[0]
