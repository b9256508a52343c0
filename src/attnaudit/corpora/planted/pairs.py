"""Generated parallel corpora whose alignments are known exactly: copy, reverse, bigram flip (Pruthi et al. 2020, section 5)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.corpus import SPLITS, Pairs, ParallelCorpus
from attnaudit.corpora.planted.sequences import TARGETS, Sequences, right_positions

_SMALLEST = 10  # a row for dev and one for test
_MOST_SYMBOLS = 1_000_000


def planted_pairs(kind: str, seed: int = 0, size: int = 10_000, length: tuple[int, int] = (8, 16), symbols: int = 100) -> ParallelCorpus:
    """Pairs in which every target word comes from one source word, and it is known which (Pruthi et al. 2020, section 5).

    A source has words ``s0``, ``s1``, … of ``symbols``, each drawn by itself, as its number of words is (``length``: fewest, most); its
    target has their twins ``t0``, ``t1``, … in the order that ``kind`` names. ``copy``: the same. ``reverse``: the last first.
    ``bigram_flip``: the two of each pair swapped, the last of an odd number kept. There are ``size`` pairs in all (80/10/10). A
    source follows from the seed, its split and its number in it: neither more rows nor another kind change it. Raises InputError.
    """
    _check(kind, size, length, symbols)
    held_out = size // 10
    splits = {split: _split(kind, seed, split, held_out if split != "train" else size - 2 * held_out, length, symbols) for split in SPLITS}
    note = f"planted pairs, {kind}: {size} of {length[0]} to {length[1]} words out of {symbols}, made with seed {seed}"
    return ParallelCorpus.of(f"planted-{kind}", splits, (note,))


def _split(kind: str, seed: int, split: str, count: int, length: tuple[int, int], symbols: int) -> Pairs:
    fewest, most = length
    lengths = fewest + Sequences("iid", 1, most - fewest + 1).draw(seed, f"planted lengths/{split}", 0, count)[:, 0]
    drawn = Sequences("iid", most, symbols).draw(seed, f"planted symbols/{split}", 0, count)
    order = {words: right_positions(kind, words) for words in np.unique(lengths).tolist()}
    sources = [row[:words] for row, words in zip(drawn, lengths.tolist(), strict=True)]
    targets = [source[order[len(source)]] for source in sources]
    return Pairs(np.arange(count), _texts("s", sources), _texts("t", targets), _links(lengths, order))


def _texts(side: str, rows: list[np.ndarray]) -> tuple[str, ...]:
    return tuple(" ".join(f"{side}{symbol}" for symbol in row.tolist()) for row in rows)


def _links(lengths: Int64[np.ndarray, " n"], order: dict[int, Int64[np.ndarray, " words"]]) -> Int64[np.ndarray, "three k"]:
    """Row, source word and target word: ``order`` gives for every length the source word of each target word."""
    goes_to = {words: np.argsort(positions) for words, positions in order.items()}
    parts = [np.vstack([np.full(words, row), np.arange(words), goes_to[words]]) for row, words in enumerate(lengths.tolist())]
    return np.hstack(parts)


def _check(kind: str, size: int, length: tuple[int, int], symbols: int) -> None:
    operation = "plant pairs"
    if kind not in TARGETS:
        raise InputError(operation, "kind", repr(kind), f"one of {', '.join(TARGETS)}", did_you_mean(kind, TARGETS))
    if size < _SMALLEST:
        raise InputError(operation, "size", str(size), f"at least {_SMALLEST}")
    if not 1 <= length[0] <= length[1]:
        raise InputError(operation, "length", f"{length[0]} to {length[1]}", "1 or more, the shorter first")
    if not 2 <= symbols <= _MOST_SYMBOLS:
        raise InputError(operation, "symbols", str(symbols), f"2 to {_MOST_SYMBOLS}")
