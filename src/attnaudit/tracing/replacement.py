"""Run a model on copies of its texts in which random words are replaced by words of other texts.

The weights of one forward pass cannot show which words decide a prediction. Words of other texts
keep copies closer to the training data than deletion or a mask does. Source: Cohen-Wang et al.
2024, ContextCite, with words in place of sources.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int64

from attnaudit.core import Progress, silent
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys
from attnaudit.corpora.corpus import keyed
from attnaudit.trace import list_column
from attnaudit.trace.schema import FEW_OUTPUTS, MOST_OUTPUTS, nested_column
from attnaudit.tracing.settings import ReplacementSettings

# Shares of words that copies lose, in turn: small ones isolate words, large ones show the rest.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
MOST_COPIES = 240
ERROR = 0.01  # copies are doubled if their draw adds a larger error to the mean score
LONG = 30.0  # seconds from which the cost is reported


def chosen_texts(
    keys: Sequence[Int64[np.ndarray, " n"]], settings: ReplacementSettings
) -> Bool[np.ndarray, " n"]:
    """Mark the texts whose words are replaced, drawn by their keys regardless of order."""
    chosen = np.zeros(len(keys[0]), bool)
    draw = stream_keys(settings.seed, "replacement", *keys)
    chosen[np.lexsort((*keys, draw))[: settings.texts]] = True
    # A new word must come from another text.
    return chosen & (len(np.unique(keys[0])) > 1)


def copies_of(texts: int, settings: ReplacementSettings) -> int:
    """Return the number of copies of each text; fewer texts get more.

    Without any relation, a rank correlation of M copies has standard error 1 / √(M − 3).
    """
    copies = settings.copies
    while copies < MOST_COPIES and texts * (copies - 3) < ERROR**-2:
        copies *= 2
    return min(copies, max(MOST_COPIES, settings.copies))


def draw_subsets(
    positions: int, copies: int, random: np.random.Generator
) -> Bool[np.ndarray, "M T"]:
    """Draw the positions that each copy loses, at least one."""
    share = np.resize(SHARES, copies)[:, None]
    lost = random.random((copies, positions)) < share
    lost[np.arange(copies), random.integers(positions, size=copies)] |= ~lost.any(axis=1)
    return lost


# Positions that the copies of a text lose, and the ids of the copies, or where they come from.
Drawn = tuple[Bool[np.ndarray, "M T"], Any]
# The lost positions for each of some texts, and the predictions of all their copies.
Predicted = tuple[Sequence[np.ndarray], Float[np.ndarray, "n C"]]


class Donors:
    """Words of all texts, drawn by position.

    Rows of one number are one text, cut at several positions. Its longest row has its words.

    Args:
        words: Ids of the words of each text.
        instance: Numbers of the texts.
        sentences: Number of words of each sentence of each text, if positions are sentences.
    """

    def __init__(
        self, words: Ragged, instance: Int64[np.ndarray, " n"], sentences: Ragged | None = None
    ) -> None:
        self.words, self.sentences = words, sentences
        order = np.lexsort((instance, words.lengths))
        _, last = np.unique(instance[order[::-1]], return_index=True)
        self._order = order[np.sort(len(order) - 1 - last)]
        self._lengths = words.lengths[self._order]
        texts, rank = np.unique(instance[self._order], return_index=True)
        self._rank = rank[np.searchsorted(texts, instance)]

    def copies(self, row: int, copies: int, random: np.random.Generator) -> Drawn:
        """Draw copies of a text."""
        units = self.sentences[row] if self.sentences else np.ones_like(self.words[row])
        lost = draw_subsets(len(units), copies, random)
        drawn = self.draw(row, copies, random)
        return lost, np.where(np.repeat(lost, units, axis=1), drawn, self.words[row])

    def draw(self, row: int, copies: int, random: np.random.Generator) -> Int64[np.ndarray, "M W"]:
        """Draw a word for each position of a text from the same position of another text.

        If no other text is so long, the word may come from any other.
        """
        place = np.arange(self.words.lengths[row])
        first = np.searchsorted(self._lengths, place, side="right")
        first = np.where(first == len(self._order) - 1, 0, first)
        others = len(self._order) - 1 - first
        drawn = first + (random.random((copies, len(place))) * others).astype(np.int64)
        drawn += drawn >= self._rank[row]
        within = place % np.maximum(self._lengths[drawn], 1)
        return self.words.values[self.words.offsets[self._order[drawn]] + within]


@dataclass(frozen=True, kw_only=True)
class TextReplacement(ABC):
    """Replacement of words in texts, for any model.

    A model that predicts tokens has a text for each of its predictions.

    Attributes:
        keys: Numbers that identify the texts: of the instance, perhaps of the position predicted.
        donors: Their ``words``; its ``copies`` draws copies of a text.
        outputs: Length of a prediction.
        settings: Numbers of texts and of copies.
        progress: Receives the number of texts done. If the work takes long, the stage gives the
            number of model runs and the seconds, estimated from the first texts.
    """

    keys: tuple[Int64[np.ndarray, " n"], ...]
    donors: Any
    outputs: int
    settings: ReplacementSettings
    progress: Progress = silent

    def chosen(self) -> Bool[np.ndarray, " n"]:
        """Mark the texts whose words are replaced."""
        return chosen_texts(self.keys, self.settings)

    def copies(self, row: int, copies: int) -> Drawn:
        """Draw copies of a text, regardless of the order of texts."""
        key = (str(numbers[row]) for numbers in self.keys)
        random = keyed(self.settings.seed, "replacement", *key)
        lost, words = self.donors.copies(row, copies, random)
        if self.outputs > MOST_OUTPUTS:  # `most_probable` needs the prediction of the text itself
            lost[0], words[0] = False, self.donors.words[row]
        return lost, words

    @property
    def threads(self) -> int:
        """Number of texts that run at the same time, after the first ones."""
        return 1

    @abstractmethod
    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterable[Predicted]:
        """Yield positions that the copies of texts lose, and their predictions, in that order."""

    def columns(self, rows: Int64[np.ndarray, " m"]) -> dict[str, pl.Series]:
        """Return the columns ``replaced`` and ``replaced_prediction`` of texts, null if not chosen.

        Args:
            rows: Indices of texts, in ascending order.
        """
        chosen = self.chosen()
        asked, done = rows[chosen[rows]], np.cumsum(chosen)
        total, many = int(chosen.sum()), int(self.outputs > MOST_OUTPUTS)
        copies, began, stage = copies_of(total, self.settings), time.monotonic(), ""
        lost, predictions = [], [np.zeros((0, FEW_OUTPUTS if many else self.outputs))]
        for masks, prediction in self.run(asked, copies + many):
            lost += [mask[many:] for mask in masks]
            runs = prediction.reshape(len(masks), -1, self.outputs)
            predictions.append(most_probable(runs) if many else prediction)
            if not stage:
                lengths = self.donors.words.lengths
                work = lengths[chosen].sum() / lengths[asked[: len(lost)]].sum()
                seconds = (time.monotonic() - began) * work / self.threads
                cost = f", {total * copies:,} runs of the model, about {seconds:.0f} s"
                stage = f"replace words{cost if seconds > LONG else ''}"
            self.progress(stage, int(done[asked[len(lost) - 1]]), total)
        return replaced_columns(chosen[rows], lost, np.concatenate(predictions))


def most_probable(runs: Float[np.ndarray, "k M1 C"]) -> Float[np.ndarray, "n 3"]:
    """Return the predictions of copies as three outputs of many.

    They are the output predicted for the text itself, which is the first run, the most probable
    other output of the copy, and the sum of the rest. So log-odds are those of all outputs.
    """
    predicted, copies = runs[:, :1].argmax(axis=2, keepdims=True), runs[:, 1:].copy()
    own = np.take_along_axis(copies, predicted, axis=2)
    np.put_along_axis(copies, predicted, 0.0, axis=2)
    other = copies.max(axis=2, keepdims=True)
    rest = copies.sum(axis=2, keepdims=True) - other
    return np.concatenate([own, other, rest], axis=2).reshape(-1, FEW_OUTPUTS)


def replaced_columns(
    chosen: Bool[np.ndarray, " n"],
    lost: Sequence[np.ndarray],
    prediction: Float[np.ndarray, "m C"],
) -> dict[str, pl.Series]:
    """Make the columns of n rows.

    Args:
        chosen: Rows whose words were replaced, k of them.
        lost: For each chosen row, the positions that each of its M copies lost, ``(M, T)``.
        prediction: Predictions of all copies, row after row.
    """
    counts = np.array([len(mask) for mask in lost], np.int64)
    copies = [np.flatnonzero(copy).astype(np.int32) for mask in lost for copy in mask]
    # Rows that were not chosen have index -1, and become null.
    place = pl.Series(np.where(chosen, np.cumsum(chosen) - 1, -1)).replace(-1, None)
    vectors = pl.Series(prediction, dtype=pl.Array(pl.Float64, prediction.shape[1]))
    columns = {
        "replaced": list_column("", Ragged.from_rows(copies, np.int32)),
        "replaced_prediction": vectors,
    }
    return {
        name: nested_column(name, values, counts).gather(place) for name, values in columns.items()
    }
