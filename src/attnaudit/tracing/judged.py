"""The trace of scores of any classifier, which is a function from texts to probabilities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core import InputError, Progress, describe_error, did_you_mean, silent
from attnaudit.core.given import is_whole, known, listed, named_outputs, whole
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys, uniform
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.corpora.corpus import keyed
from attnaudit.stats.measures import ERASED_SHARES, tvd, two_classes
from attnaudit.trace import COLUMNS, SHOWN, Trace
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement, chosen_texts
from attnaudit.tracing.settings import ReplacementSettings
from attnaudit.tracing.strings import COMPUTED, OPERATION, TAKEN, Cut, Strings, read_scores

Predict = Callable[[list[str]], Any]
ONE_BATCH = 8  # texts that are predicted again, in another order
SUM = 1e-3  # probabilities of float16 add up to 1 within this


@dataclass(frozen=True)
class JudgeOptions:
    """Options of `judge`.

    Attributes:
        shown: Name of the score that is shown, which the verdict is about; by default the first.
        labels: Class of each text, by name or number from 0.
        class_names: Names of the classes.
        words: Function that cuts a text into words; by default spaCy's rules for English.
        replacement: Settings: number of texts that are judged, drawn with the seed, and of copies.
        batch: Most texts that ``predict`` gets at once.
        name: Title of the page; by default the name of the score that is shown.
        progress: Receives the number of texts done.
    """

    shown: str | None = None
    labels: Sequence[Any] | None = None
    class_names: Sequence[str] | None = None
    words: Cut | None = None
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    batch: int = 256
    name: str = ""
    progress: Progress = silent

    def __post_init__(self) -> None:
        whole(OPERATION, "batch", self.batch, 1)


def collect_scores(
    predict: Predict, texts: Iterable[Any], scores: Any, options: JudgeOptions
) -> Trace:
    """Make the trace of scores; arguments and errors are those of `judge`."""
    if options.class_names is not None:
        names = named_outputs(OPERATION, "class_names", options.class_names)
        options = replace(options, class_names=names)
    strings = Strings.of(texts, options.words)
    found, labels = read_scores(scores, strings), _labels(options, len(strings))
    shown, settings = _shown(options.shown, found), options.replacement
    if len(strings) < 2 or settings.texts < 1:
        got, expected = f"{min(len(strings), settings.texts)} texts", "2 texts or more"
        raise InputError(OPERATION, "texts", got, expected, "new words come from other texts")
    rows = np.flatnonzero(chosen_texts([np.arange(len(strings))], settings))
    model = _Model(predict, options.batch)
    own = model.checked([strings.text(row) for row in rows.tolist()], options.class_names)
    _require_class(labels or (), own.shape[1], "")
    chosen = {"settings": settings, "progress": options.progress}
    judged = _Judged.of(model, strings, rows, own, **chosen)
    weights = {name: judged.weights(values) for name, values in found.items()}
    heatmap = weights[shown]
    streams = stream_keys(settings.seed, "random score", rows)
    weights["random"] = heatmap.with_values(uniform(heatmap.spread(streams), heatmap.places))
    weights["loo"] = heatmap.with_values(judged.leave_one_out())
    weights = {SHOWN if name == shown else name: own for name, own in weights.items()}
    falls = {f"input_replacement_{name}": judged.falls(own) for name, own in weights.items()}
    total = heatmap.spread(heatmap.sum())
    equal = 1.0 / heatmap.spread(heatmap.lengths)  # a score that marks no word marks all alike
    shares = np.divide(heatmap.values, total, out=equal, where=total > 0.0)
    weights[SHOWN] = heatmap.with_values(shares)
    signed = [name for name, values in found.items() if any((one < 0).any() for one in values)]
    notes = [f"negative values of {', '.join(signed)} count by their size"] if signed else []
    return Trace.from_arrays(
        activation="softmax",
        class_names=list(options.class_names or map("class {}".format, range(own.shape[1]))),
        metadata={
            "heatmap": shown,
            "seed": settings.seed,
            "name": options.name or f"Heatmap {shown}",
            "notes": notes,
        },
        origin="scores",
        instance=rows,
        tokens=[list(strings.words[row]) for row in rows.tolist()],
        prediction=own,
        label=None if labels is None else [labels[row] for row in rows.tolist()],
        **{name if name in COLUMNS else f"importance_{name}": one for name, one in weights.items()},
        **falls,
        **cast("dict[str, Any]", judged.columns(rows)),
    )


def _shown(name: str | None, found: Collection[str]) -> str:
    """Return the name of the score that is shown, once all names are known to be free."""
    shown = next(iter(found)) if name is None else name
    if shown not in found:
        do = did_you_mean(shown, found)
        raise InputError(OPERATION, "shown", repr(shown), f"one of {', '.join(found)}", do)
    for one in found:
        if one in COMPUTED or (one in TAKEN and one != shown):
            do = "give the score another name"
            raise InputError(OPERATION, f"score {one!r}", "a name that is taken", "a free name", do)
    return shown


def _labels(options: JudgeOptions, texts: int) -> list[int | None] | None:
    """Return the class of each text by number."""
    if options.labels is None:
        return None
    given, names = listed(options.labels), list(options.class_names or ())
    if given is None or len(given) != texts:
        got = type(options.labels).__name__ if given is None else f"{len(given)} labels"
        raise InputError(OPERATION, "labels", got, f"{texts}, one for each text")
    labels = [known(one) for one in given]
    found = [names.index(one) if isinstance(one, str) and one in names else one for one in labels]
    _require_class(found, len(names), f"one of {', '.join(names)}" if names else "")
    return [None if label is None else int(label) for label in found]


def _require_class(labels: Iterable[Any], classes: int, expected: str) -> None:
    """Raise InputError for the first label that is no class; without ``classes`` any number is."""
    for row, label in enumerate(labels):
        is_number = is_whole(label) and 0 <= label < (classes or np.inf)
        if label is not None and not is_number:
            numbers = f"0 to {classes - 1}" if classes else "a number from 0, or class_names"
            raise InputError(OPERATION, f"label of text {row}", repr(label), expected or numbers)


@dataclass(frozen=True)
class _Model:
    """A classifier whose answers are checked."""

    predict: Predict
    batch: int

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "n C"]:
        """Predict texts, in float64, with two columns where there is one probability."""
        starts = range(0, len(texts), self.batch)
        return np.concatenate([self._predict(list(texts[k : k + self.batch])) for k in starts])

    def _predict(self, texts: list[str]) -> Float[np.ndarray, "n C"]:
        where = f"predict, texts from {texts[0][:60]!r}"
        try:
            found = self.predict(texts)
            found = found.detach().cpu() if hasattr(found, "detach") else found
            array = np.asarray(found, np.float64)
        except Exception as error:  # whatever a user's function raises
            expected = "probabilities, an array of a row for each text"
            raise InputError(OPERATION, where, describe_error(error), expected) from error
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or len(array) != len(texts) or not array.shape[1]:
            expected = f"shape ({len(texts)}, C), a row for each text"
            raise InputError(OPERATION, where, f"shape {array.shape}", expected)
        both = two_classes(array)
        # Negated, so that NaN is refused too.
        wrong = ~((both.min(axis=1) >= -TOLERANCE.trace) & (abs(both.sum(axis=1) - 1) <= SUM))
        if wrong.any():
            expected = "probabilities of 0 to 1 with sum 1"
            do = "apply a softmax or a sigmoid to logits"
            raise InputError(OPERATION, where, str(array[wrong][0].tolist())[:100], expected, do)
        return np.maximum(both, 0.0)

    def checked(self, texts: list[str], names: Sequence[str] | None) -> Float[np.ndarray, "n C"]:
        """Predict texts; refuse answers that depend on other texts, on the call, or on nothing."""
        found = self(texts)
        if names is not None and len(names) != found.shape[1]:
            expected = f"{found.shape[1]}, as predict has"
            raise InputError(OPERATION, "class_names", f"{len(names)} names", expected)
        if len(texts) > 1 and not np.ptp(found, axis=0).any():
            got, expected = f"{found[0].tolist()} for every text", "probabilities that differ"
            raise InputError(OPERATION, "predict", got, expected, "return a column for each class")
        again = self(texts[:ONE_BATCH][::-1])[::-1]
        changes = tvd(again, found[:ONE_BATCH])
        if changes.max() > TOLERANCE.network:
            where = f"predict, text {texts[int(changes.argmax())][:60]!r}"
            got = f"probabilities that change by {changes.max():.2g} in another batch or call"
            do = "switch off dropout, and padding that is not masked"
            raise InputError(OPERATION, where, got, f"the same within {TOLERANCE.network:g}", do)
        return found


@dataclass(frozen=True, kw_only=True)
class _Judged(TextReplacement):
    """Measures of the texts that are judged.

    Attributes:
        model: The classifier.
        strings: All texts.
        vocabulary: Their words, each once.
        rows: Numbers of the texts that are judged.
        own: Their probabilities.
    """

    model: _Model
    strings: Strings
    vocabulary: list[str]
    rows: Int64[np.ndarray, " m"]
    own: Float[np.ndarray, "m C"]

    @classmethod
    def of(
        cls, model: _Model, strings: Strings, rows: np.ndarray, own: np.ndarray, **options: Any
    ) -> _Judged:
        """Prepare texts; ``options`` are settings and progress."""
        number: dict[str, int] = {}
        ids = [[number.setdefault(word, len(number)) for word in own] for own in strings.words]
        words, instance = Ragged.from_rows(ids, np.int64), np.arange(len(strings))
        return cls(
            keys=(instance,),
            donors=Donors(words, instance),
            outputs=own.shape[1],
            model=model,
            strings=strings,
            vocabulary=list(number),
            rows=rows,
            own=own,
            **options,
        )

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the copies of one text at a time."""
        for row in rows.tolist():
            lost, drawn = self.copies(row, copies)
            yield [lost], self.model(self.texts(row, drawn))

    def texts(self, row: int, copies: Int64[np.ndarray, "M T"]) -> list[str]:
        """Write a text with other words."""
        words = ([self.vocabulary[word] for word in copy] for copy in copies.tolist())
        return [self.strings.text(row, copy) for copy in words]

    def weights(self, values: Sequence[np.ndarray]) -> Ragged:
        """Return the magnitudes of a score, of the predicted class if it has one of each."""
        rows = []
        for row, label in zip(self.rows.tolist(), self.own.argmax(axis=1).tolist(), strict=True):
            own = values[row]
            if own.ndim > 1:
                if own.shape[1] not in (1, self.own.shape[1]):
                    got, expected = f"{own.shape[1]} values a word", f"1 or {self.own.shape[1]}"
                    raise InputError(OPERATION, f"score, text {row}", got, expected)
                own = own[:, label if own.shape[1] > 1 else 0]
            rows.append(np.abs(own))
        return Ragged.from_rows(rows)

    def leave_one_out(self) -> Float[np.ndarray, " N"]:
        """Return the TVD when each word is deleted; 0 for the only word of a text."""
        parts = []
        for k, row in enumerate(self.rows.tolist()):
            kept = ~np.eye(len(self.strings.words[row]), dtype=bool)
            texts = [self.strings.text(row, kept=one.tolist()) for one in kept if one.any()]
            found = self.model(texts) if texts else self.own[[k]]
            parts.append(tvd(found, np.broadcast_to(self.own[k], found.shape)))
            self.progress("leave words out", k + 1, len(self.rows))
        return np.concatenate(parts)

    def falls(self, score: Ragged) -> Float[np.ndarray, "n S"]:
        """Return the falls of the predicted class with the words of largest weight replaced."""
        ranks, texts = score.with_values(np.empty(len(score.values), np.int64)), list[str]()
        ranks.values[score.descending()] = score.places
        for rank, row in zip(ranks, self.rows.tolist(), strict=True):
            random = keyed(self.settings.seed, "erasure", str(row))
            drawn = self.donors.draw(row, len(ERASED_SHARES), random)
            # The 1e-9 is for products slightly above a whole number, such as 0.07 · 100.
            counts = np.maximum(np.ceil(np.array(ERASED_SHARES) * len(rank) - 1e-9), 1)
            lost = rank < counts[:, None]
            texts += self.texts(row, np.where(lost, drawn, self.donors.words[row]))
        after, chosen = self.model(texts), self.own.argmax(axis=1)[:, None]
        after = np.take_along_axis(after.reshape(len(chosen), -1, self.outputs), chosen[:, None], 2)
        return np.take_along_axis(self.own, chosen, 1) - after[..., 0]
