"""Corpus, model, classes and settings of a run, as its specification and its trace record them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnaudit.trace import ASKING

UNKNOWN = "unknown"
MOST_NAMED = 8
LONGEST_NAME = 100  # characters of a name of a corpus or a model that cards, titles and tables show


@dataclass(frozen=True)
class About:
    """Names that a report shows and by which published numbers are found; missing ones are ``unknown`` or empty.

    ``name`` and ``model`` are the title that a trace gives itself and its name for the model. ``class_names`` are in the order of the
    model's outputs. ``spec`` and ``metadata`` are kept whole, to be listed.
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
        """Read from ``spec.json`` and from a trace's metadata, whichever of the two says it; the specification goes first."""
        spec, metadata = spec or {}, metadata or {}
        seed = first_of(spec.get("seed"), metadata.get("seed"))
        return cls(
            corpus=_short(
                first_of(
                    _entry(spec, "corpus", "name"), _entry(metadata, "corpus", "name"), UNKNOWN
                )
            ),
            encoder=_short(
                first_of(
                    _entry(spec, "model", "encoder"), _entry(metadata, "model", "encoder"), UNKNOWN
                )
            ),
            attention=_short(
                first_of(
                    _entry(spec, "model", "attention"),
                    _entry(metadata, "model", "attention"),
                    UNKNOWN,
                )
            ),
            class_names=tuple(
                map(
                    str,
                    first_of(
                        metadata.get("class_names"), _entry(spec, "corpus", "class_names"), ()
                    ),
                )
            ),
            seed=seed if isinstance(seed, int) and seed >= 0 else None,
            name=_short(_text(metadata.get("name"))),
            model=_short(_text(_entry(metadata, "model", "name"))),
            notes=_notes(spec, metadata),
            spec=spec,
            metadata=metadata,
        )

    @property
    def title(self) -> str:
        """The corpus as its record titles it, else its name."""
        titles = [
            _entry(record, "corpus", "title")
            for record in (self.spec, self.metadata)
            if _entry(record, "corpus", "name") == self.corpus
        ]
        return _short(first_of(*titles, self.corpus))

    @property
    def has_question(self) -> bool:
        """Whether the model read a question, or a hypothesis, with each text: by its task, or by a column of the trace."""
        return (
            _entry(self.metadata, "corpus", "task") in ASKING
            or self.metadata.get("has_question") is True
        )

    @property
    def has_two_classes(self) -> bool:
        """Whether the model is known to have two classes: by their names, or without names by its one sigmoid output."""
        return len(self.class_names) == 2 or (
            not self.class_names and self.metadata.get("activation") == "sigmoid"
        )

    @property
    def assumed_classes(self) -> str:
        """Which output of a model is which class, where this is assumed by order or number and not known by name; else nothing."""
        matched, outputs = (_entry(self.metadata, "model", name) for name in ("matched", "outputs"))
        if matched not in ("order", "number"):
            return ""
        pairs = [
            f"{number if own == name else own} is {name}"
            for number, (own, name) in enumerate(_mapping(outputs).items())
        ]
        return f"classes assumed: {', '.join(pairs[:MOST_NAMED])}{', …' if len(pairs) > MOST_NAMED else ''}"

    @property
    def translates(self) -> bool:
        """Whether a row of the trace is a gold token that a translator writes."""
        return _entry(self.metadata, "corpus", "task") == "translation"

    @property
    def tokens(self) -> str:
        """What the instances of a translator are."""
        heads = _entry(self.metadata, "model", "heads")
        return "the gold tokens of pairs" + (
            ", head by head" if isinstance(heads, int) and heads > 1 else ""
        )

    @property
    def drawn(self) -> str:
        """What an interval draws: of a translator, whose instances are gold tokens, whole pairs."""
        return "pairs" if self.translates else "instances"

    @property
    def of_sentences(self) -> bool:
        """Whether a position of the trace is a sentence."""
        records = (self.metadata, self.spec)
        level = first_of(*(_entry(record, "collect", "level") for record in records))
        return (
            any(_entry(record, "model", "hierarchical") is True for record in records)
            and level != "words"
        )

    @property
    def heads(self) -> int | None:
        """How many heads of attention a transformer has, in all its layers; None where that is unknown."""
        layers = _entry(self.metadata, "gate", "layers")
        known = (
            [layer.get("heads") for layer in layers if isinstance(layer, Mapping)]
            if isinstance(layers, list)
            else []
        )
        return sum(number for number in known if isinstance(number, int)) or None

    def setting(self, experiment: str, name: str, default: Any = None) -> Any:
        """The setting of an experiment that the run recorded, else ``default``."""
        return first_of(_entry(_mapping(self.spec.get("experiments")), experiment, name), default)


def first_of(*values: Any) -> Any:
    """The first that is not None; None when all are."""
    return next((value for value in values if value is not None), None)


def _short(name: Any) -> str:
    """A name as cards, titles and tables show it: a trace of another program may have one of any length."""
    text = str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entry(record: Mapping[str, Any], section: str, name: str) -> Any:
    """``record[section][name]``; a section that is a plain text is its own name."""
    value = record.get(section)
    if isinstance(value, str) and name == "name":
        return value
    return _mapping(value).get(name)


def _notes(spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[str, ...]:
    notes: dict[str, None] = {}
    for record in (spec, _mapping(spec.get("corpus")), metadata, _mapping(metadata.get("corpus"))):
        given = record.get("notes")
        listed = (
            [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else []
        )
        notes.update(dict.fromkeys(str(note) for note in listed))
    return tuple(notes)
