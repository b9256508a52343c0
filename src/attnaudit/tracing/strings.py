"""Texts as strings, cut into words, with scores of these words as other tools return them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from attnaudit.core import InputError, describe_error, require
from attnaudit.core.given import is_whole, listed
from attnaudit.corpora.formats.tables import collected, is_table
from attnaudit.corpora.prepare.tokenise import Tokeniser

OPERATION = "judge"
Cut = Callable[[str], Sequence[str]]
# Columns of a table with a row for each word; the others are scores.
TEXT, WORD = "text", "word"
# Names of what is computed of every text, and words that join names in summaries.
COMPUTED, TAKEN = ("loo", "random"), ("alpha", "attention", "share", "shown", "surrogate")
JOINTS = ("_and_", "_minus_")
_CONTINUES = re.compile("^(##|▁|Ġ|Ċ)+|</w>$")  # marks of pieces of words


@dataclass(frozen=True)
class Strings:
    """Texts cut into words.

    Attributes:
        words: Words of each text.
        gaps: Characters before, between and after the words of each text.
    """

    words: Sequence[Sequence[str]]
    gaps: Sequence[Sequence[str]]

    @classmethod
    def of(cls, texts: Iterable[Any], cut: Cut | None = None) -> Strings:
        """Cut texts, by the rules of spaCy's blank English unless ``cut`` is given.

        Texts that are lists of words are joined by blanks.

        Raises:
            InputError: If there is no text, or a text is neither or has no word.
        """
        rows = listed(texts)
        if not rows:
            got = "no text" if rows == [] else f"a {type(texts).__name__}"
            got = "one text" if isinstance(texts, str) else got
            raise InputError(OPERATION, "texts", got, "a list of texts")
        words, gaps = [], []
        for row, text in enumerate(rows):
            if isinstance(text, str):
                cut = cut or _spacy_words()
                try:
                    own = list(cut(text))
                except Exception as error:  # whatever a user's function raises
                    expected = "a list of words"
                    raise _error(f"words of text {row}", describe_error(error), expected) from error
                between = _gaps(row, text, own)
            elif isinstance(text, list | tuple) and all(isinstance(word, str) for word in text):
                own = list(text)
                between = ["", *[" "] * (len(own) - 1), ""]
            else:
                raise _error(f"text {row}", type(text).__name__, "a text, or a list of words")
            if not own or not all(own):
                raise _error(f"text {row}", f"{str(text)[:80]!r}, no word", "one word or more")
            words.append(own)
            gaps.append(between)
        return cls(words, gaps)

    def __len__(self) -> int:
        return len(self.words)

    def text(
        self, row: int, words: Sequence[str] | None = None, kept: Sequence[bool] | None = None
    ) -> str:
        """Return a text with other words, or with only those that are kept.

        Of the gaps around words that are left out, the longest stays: else ", really" without its
        comma would stick to the word before.
        """
        parts, between = [self.gaps[row][0]], ""
        for t, word in enumerate(self.words[row] if words is None else words):
            between = max(between, self.gaps[row][t], key=len) if len(parts) > 1 else ""
            if kept is None or kept[t]:
                parts += [between, word]
                between = ""
        return "".join([*parts, self.gaps[row][-1]])

    def of_tokens(self, row: int, tokens: Sequence[str], values: np.ndarray) -> np.ndarray:
        """Add up values of the tokens of a text over its words.

        Args:
            row: Number of the text.
            tokens: Its tokens in order; marks of a tokenizer are ignored, and so are empty tokens.
            values: A value, or one of each class, per token.

        Raises:
            InputError: If a token is not found in the text.
        """
        pairs = zip(self.gaps[row][:-1], self.words[row], strict=True)
        ends = np.cumsum([len(gap) + len(word) for gap, word in pairs])
        if len(tokens) != len(values):
            got = f"{len(tokens)} tokens and {len(values)} values"
            raise _error(f"text {row}", got, "a value for each token")
        text, start, found = self.text(row).lower(), 0, np.zeros((len(ends), *values.shape[1:]))
        for token, value in zip(tokens, values, strict=True):
            piece = _CONTINUES.sub("", str(token).strip()).strip().lower()
            if not piece:
                continue
            place = text.find(piece, start)
            if place < 0:
                do = "leave out special tokens, or give a value for each word"
                raise _error(f"text {row}", f"token {token!r}", "tokens of the text, in order", do)
            start = place + len(piece)
            found[min(np.searchsorted(ends, place, side="right"), len(ends) - 1)] += value
        return found


def _spacy_words() -> Cut:
    require("train", "judge without words=str.split")
    return Tokeniser(mask_digits=False, lowercase=False)


def _gaps(row: int, text: str, words: Sequence[str]) -> list[str]:
    """Return what stands before, between and after the words of a text."""
    gaps, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            raise _error(f"text {row}", f"word {word!r}", "words of the text, in order")
        gaps.append(text[end:start])
        end = start + len(word)
    return [*gaps, text[end:]]


def read_scores(scores: Any, texts: Strings) -> dict[str, list[Float[np.ndarray, "T ..."]]]:
    """Read scores of the words of texts.

    Args:
        scores: By name, or a table of several; see `judge`.
        texts: The texts.

    Returns:
        For each name a value per word of every text, or one of each class.

    Raises:
        InputError: For names that are taken, and for values that are not those of these words.
    """
    if not isinstance(scores, Mapping):
        if not is_table(scores):
            raise _error("scores", type(scores).__name__, "scores by name, or a table of them")
        scores = _of_table("scores", scores, texts)
    if not scores:
        raise _error("scores", "no score", "one score or more, by name")
    found: dict[str, list[np.ndarray]] = {}
    for title, values in scores.items():
        name, where = re.sub(r"\W+", "_", str(title)).strip("_").lower(), f"score {title!r}"
        if name in found:
            raise _error(where, "two scores of this name", "different names")
        if not name or any(joint in f"_{name}_" for joint in JOINTS):
            raise _error(where, "such a name", f"a name without {', '.join(JOINTS)}")
        rows = _rows_of(where, values, texts)
        if len(rows) != len(texts):
            raise _error(where, f"{len(rows)} texts", f"{len(texts)}, as texts has")
        found[name] = [_checked(where, k, own, texts) for k, own in enumerate(rows)]
    return found


def _rows_of(where: str, values: Any, texts: Strings) -> list[Any]:
    """Return the values of each text, whatever holds them."""
    if is_table(values):
        columns = _of_table(where, values, texts)
        if len(columns) != 1:
            raise _error(where, f"columns {', '.join(columns)}", "one column of scores")
        return next(iter(columns.values()))
    if callable(values):
        try:
            return [values(texts.text(row)) for row in range(len(texts))]
        except Exception as error:  # whatever a user's function raises
            raise _error(where, describe_error(error), "a value per word of every text") from error
    if hasattr(values, "detach"):
        return list(_array(values))
    if hasattr(values, "sequence_attributions"):  # Inseq: a value per source token and step
        every = values.sequence_attributions
        tokens = [[getattr(one, "token", one) for one in own.source] for own in every]
        numbers = [np.abs(_array(own.source_attributions)).sum(axis=1) for own in every]
    elif hasattr(values, "values") and hasattr(values, "data"):  # SHAP
        tokens, numbers = values.data, values.values
    elif (rows := listed(values)) is not None:
        return rows
    else:
        raise _error(where, f"a {type(values).__name__}", "a value per word of every text")
    if len(numbers) != len(texts):
        return list(numbers)  # which is refused
    return [texts.of_tokens(row, tokens[row], _array(numbers[row])) for row in range(len(texts))]


def _of_table(where: str, table: Any, texts: Strings) -> dict[str, list[Any]]:
    """Read a table with a row for each word, or a list of values for each text."""
    import narwhals as nw

    frame = nw.from_native(collected(table))
    columns = {name: frame.get_column(name).to_list() for name in frame.columns}
    if TEXT not in columns or WORD not in columns:
        return columns
    numbers = columns.pop(TEXT)
    words = columns.pop(WORD)
    rows: list[list[int]] = [[] for _ in range(len(texts))]
    for k, number in enumerate(numbers):
        if not (is_whole(number) and 0 <= number < len(texts)):
            expected = f"the number of a text, 0 to {len(texts) - 1}"
            raise _error(f"{where}: column {TEXT}, row {k}", repr(number), expected)
        rows[number].append(k)
    for row, own in enumerate(rows):
        given = [words[k] for k in own]
        if all(isinstance(one, int) for one in given):
            own.sort(key=lambda k: words[k])
        elif given != list(texts.words[row]) and len(given) == len(texts.words[row]):
            wrong = next(k for k, one in enumerate(given) if one != texts.words[row][k])
            got, expected = repr(given[wrong]), repr(texts.words[row][wrong])
            raise _error(f"{where}: text {row}, word {wrong}", got, expected)
    return {name: [[one[k] for k in own] for own in rows] for name, one in columns.items()}


def _checked(where: str, row: int, values: Any, texts: Strings) -> np.ndarray:
    """Return the values of the words of one text."""
    place, number = f"{where}, text {row}", len(texts.words[row])
    try:
        own = _array(values)
    except (TypeError, ValueError) as error:
        raise _error(place, describe_error(error), "numbers") from error
    if own.ndim and len(own) > number and not np.any(own[number:]):
        own = own[:number]  # the padding of a batch
    if own.ndim not in (1, 2) or len(own) != number:
        got = f"{len(own)} values" if own.ndim else "one value"
        raise _error(place, got, f"{number}, one for each word: {' '.join(texts.words[row])[:80]}")
    if not np.isfinite(own).all():
        raise _error(place, str(own[~np.isfinite(own)][0]), "finite numbers")
    return own


def _array(values: Any) -> np.ndarray:
    """Return numbers, which may be a tensor of any device."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, np.float64)


def _error(where: str, got: str, expected: str, do: str = "") -> InputError:
    return InputError(OPERATION, where, got, expected, do)
