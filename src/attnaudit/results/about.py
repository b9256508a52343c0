"""Corpus, model, classes and settings of a run, read from its specification and its trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnaudit.trace import ASKING

UNKNOWN = "unknown"
MOST_NAMED = 8  # classes listed in a remark; more would fill the card
# Characters of a name in cards, titles and tables. Names come from traces, which set no limit.
LONGEST_NAME = 100


@dataclass(frozen=True)
class About:
    """Names and settings for reports, and keys for looking up published numbers.

    Missing values are ``unknown`` or empty.

    Attributes:
        corpus: Name of the corpus.
        encoder: Name of the encoder.
        attention: Name of the attention.
        class_names: Names of the classes, in the order of the model's outputs.
        seed: Seed of the run.
        name: Title in the metadata of the trace.
        model: Name of the model in the metadata of the trace.
        notes: Remarks on the corpus and the run.
        spec: All of ``spec.json``.
        metadata: All metadata of the trace.
    """

    corpus: str = UNKNOWN
    encoder: str = UNKNOWN
    attention: str = UNKNOWN
    class_names: tuple[str, ...] = ()
    seed: int | None = None
    name: str = ""
    model: str = ""
    notes: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, spec: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None
    ) -> About:
        """Read a specification and the metadata of a trace.

        Args:
            spec: Content of ``spec.json``; it takes precedence, except for the names of classes.
            metadata: Metadata of the trace.
        """
        spec, metadata = spec or {}, metadata or {}

        def known(section, name):
            values = (_entry(record, section, name) for record in (spec, metadata))
            return _short(first_of(*values, UNKNOWN))

        seed = first_of(spec.get("seed"), metadata.get("seed"))
        # The trace goes first here: its names are in the order of the model's outputs.
        own_classes = _entry(spec, "corpus", "class_names")
        return cls(
            corpus=known("corpus", "name"),
            encoder=known("model", "encoder"),
            attention=known("model", "attention"),
            class_names=tuple(map(str, first_of(metadata.get("class_names"), own_classes, ()))),
            # Metadata may hold anything, and numpy refuses a seed that is no natural number.
            seed=seed if isinstance(seed, int) and seed >= 0 else None,
            name=_short(_text(metadata.get("name"))),
            model=_short(_text(_entry(metadata, "model", "name"))),
            notes=_notes(spec, metadata),
            spec=spec,
            metadata=metadata,
        )

    @property
    def title(self) -> str:
        """Title of the corpus; its name if it has none."""
        # Only a record of this corpus: the specification and the trace may name different ones.
        titles = [
            _entry(record, "corpus", "title")
            for record in (self.spec, self.metadata)
            if _entry(record, "corpus", "name") == self.corpus
        ]
        return _short(first_of(*titles, self.corpus))

    @property
    def has_question(self) -> bool:
        """True if the model reads a question or a hypothesis with each text."""
        asks = _entry(self.metadata, "corpus", "task") in ASKING
        return asks or self.metadata.get("has_question") is True

    @property
    def assumed_classes(self) -> str:
        """Remark on the class of each output, if classes were matched by order or number."""
        matched, outputs = (_entry(self.metadata, "model", name) for name in ("matched", "outputs"))
        if matched not in ("order", "number"):
            return ""
        pairs = [
            f"{number if own == name else own} is {name}"
            for number, (own, name) in enumerate(_mapping(outputs).items())
        ]
        more = ", …" if len(pairs) > MOST_NAMED else ""
        return f"classes assumed: {', '.join(pairs[:MOST_NAMED])}{more}"

    @property
    def translates(self) -> bool:
        """True for a translator, where a row of the trace is a gold token."""
        return _entry(self.metadata, "corpus", "task") == "translation"

    @property
    def tokens(self) -> str:
        """Description of a translator's positions."""
        heads = _entry(self.metadata, "model", "heads")
        several = isinstance(heads, int) and heads > 1
        return f"the gold tokens of pairs{', head by head' if several else ''}"

    @property
    def drawn(self) -> str:
        """Noun for the units that intervals resample: pairs for a translator, else texts."""
        return "pairs" if self.translates else "texts"

    @property
    def of_sentences(self) -> bool:
        """True if a position of the trace is a sentence."""
        records = (self.metadata, self.spec)
        return any(_entry(record, "model", "hierarchical") is True for record in records)

    @property
    def heads(self) -> int | None:
        """Number of heads in all layers of a transformer; None if unknown."""
        return sum(heads for _, heads in self._layers) or None

    @property
    def heads_of_text(self) -> list[int]:
        """Number of heads in each layer of a transformer that attends to the text last."""
        stacks = [stack for stack, _ in self._layers]
        last = "cross" if "cross" in stacks else stacks[-1] if stacks else None
        return [heads for stack, heads in self._layers if stack == last]

    @property
    def _layers(self) -> list[tuple[Any, int]]:
        """Stack, and number of heads, of each layer of a transformer."""
        layers = _entry(self.metadata, "gate", "layers")
        known = map(_mapping, layers if isinstance(layers, list) else ())
        pairs = ((layer.get("stack"), layer.get("heads")) for layer in known)
        return [(stack, heads) for stack, heads in pairs if isinstance(heads, int)]

    @property
    def heatmap(self) -> str:
        """Name of the heatmap that people are shown, such as ``mean-last``; empty if unknown."""
        return _short(_text(self.metadata.get("heatmap")))

    def setting(self, experiment: str, name: str, default: Any = None) -> Any:
        """Return a recorded setting of an experiment.

        Args:
            experiment: Name of the experiment.
            name: Name of the setting.
            default: Value if the run recorded none.
        """
        return first_of(_entry(_mapping(self.spec.get("experiments")), experiment, name), default)


def first_of(*values: Any) -> Any:
    """Return the first value that is not None; None if all are."""
    return next((value for value in values if value is not None), None)


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entry(record: Mapping[str, Any], section: str, name: str) -> Any:
    """Return ``record[section][name]``; None if there is no such entry."""
    # A trace may give its corpus or model as a plain text, which is then the name.
    value = record.get(section)
    if isinstance(value, str) and name == "name":
        return value
    return _mapping(value).get(name)


def _notes(spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[str, ...]:
    # The records may repeat a note; a dictionary drops repetitions and keeps the order.
    notes: dict[str, None] = {}
    for record in (spec, _mapping(spec.get("corpus")), metadata, _mapping(metadata.get("corpus"))):
        given = record.get("notes")
        listed = [given] if isinstance(given, str) else given
        if isinstance(listed, list | tuple):
            notes.update(dict.fromkeys(map(str, listed)))
    return tuple(notes)
