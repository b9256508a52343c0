"""The options of a corpus, each declared once: commands, ``spec.json`` and readers use them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from attnaudit.core import InputError
from attnaudit.core.settings import Settings, from_plain, refuse_unused, setting
from attnaudit.corpora.formats.rows import ROLES, Columns, column_option
from attnaudit.corpora.registry import CORPORA, UnitName

Preset = Literal["paper", "code2019", "flan", "han"]
PlantedRule = Literal[
    "decisive",
    "twice",
    "majority",
    "last",
    "decoy",
    "random",
    "first",
    "negation",
    "same",
    "unique",
    "noisy",
    "uneven",
]
# Corpora that settings are for (`require_used`), and how a refusal names them.
_KINDS = {
    "files": "a corpus that is read from files",
    "shares": "a corpus of train, dev and test",
    "own": "a file or a folder of your own",
    "encoded": "text files, which Parquet is not",
    "words": "texts for a model that reads words",
    "texts": "texts for a transformer",
    "planted": "a corpus planted-<kind>",
}
_share = partial(setting, default=None, above=0, most=1, only="files shares")
_own = partial(setting, default=None, only="files own")
_planted = partial(setting, default=None, only="planted")


@dataclass(frozen=True)
class _Spec(Settings):
    """Settings of texts and of pairs. Raises InputError for a value out of its bounds."""

    name: ClassVar = "corpus"
    source: str = setting("A registered name, a file or a folder.")
    data_dir: str | None = setting(
        "Folder with the registered corpora; default: $ATTNAUDIT_DATA, then the user's cache.", None
    )
    on_bad_row: Literal["error", "skip"] = setting(
        "error: stop at the first bad row; skip: exclude and list it.", "error", only="files"
    )
    train_kept: float | None = _share(
        "Share of the train rows to use; default: the corpus's own, else 1."
    )
    test_kept: float | None = _share(
        "Share of the test rows to use; default: the corpus's own, else 1."
    )
    encoding: str | None = _own(
        "Encoding of your texts, such as latin-1, cp1252 or utf-16; default: utf-8.",
        only="files own encoded",
    )
    seed: int | None = setting(
        "Seed that draws the splits, or the generated texts; default: the seed of the run.", None
    )
    size: int | None = _planted("Number of generated texts, over all splits.")
    length: tuple[int, int] | None = _planted("Fewest and most words of a generated text.")

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            "\n".encode("utf-8" if self.encoding is None else self.encoding)
        except (LookupError, ValueError) as error:
            where, expected = "setting corpus.encoding", "a name such as utf-8, latin-1 or cp1252"
            raise InputError("read settings", where, repr(self.encoding), expected) from error


@dataclass(frozen=True)
class CorpusSpec(_Spec):
    """A corpus of labelled texts: a registered name, a file or a folder, and how it is read.

    A run applies ``removed``, ``classes`` and ``planted`` after reading, so that trainings of one
    study share what was read.
    """

    text: str = _own("Column with the text.", default="text")
    label: str = _own("Column with the label.", default="label")
    question: str | None = _own(
        "Column with the question, or the hypothesis, that goes with the text."
    )
    rationale: str | None = _own(
        "Column with the [start, stop] character ranges of the words known to matter "
        "(jsonl, parquet)."
    )
    segments: str | None = _own(
        "Column with the parts of the text, such as passages, in order: their texts, or [start, "
        "stop] character ranges (jsonl, parquet).",
        only="files own texts",
    )
    answer: str | None = _own(
        "Column with the answer that a language model is to write after the text, and the question "
        "if there is one.",
        only="files own texts",
    )
    max_tokens: int | None = setting(
        "Cut texts to this many tokens.", None, least=1, only="files words"
    )
    min_df: int | None = setting(
        "Train texts that a word must occur in to enter the vocabulary; default: the corpus's own, "
        "else 1, 5 or 10 by size.",
        None,
        least=1,
        only="files words",
    )
    digits: Literal["keep", "mask"] | None = _own(
        "Words with a digit in your own texts: keep them, or mask (read each as qqq, as in Jain & "
        "Wallace 2019); default: keep.",
        only="files own words",
    )
    lowercase: bool | None = _own(
        "Lower-case all words, or none; default: all.", only="files own words"
    )
    tokenizer: str | None = _own(
        "Tokenizer: the code of a spaCy language (en, de, fr, …; xx for any), or whitespace; "
        "default: en.",
        only="files own words",
    )
    removed: Literal["rationale"] | tuple[str, ...] | None = setting(
        "Words to remove from every text: its rationale, or these.", None, only="words"
    )
    classes: int | None = setting(
        "Keep only the texts of the first classes, this many of them; default: all.",
        None,
        least=2,
        only="words",
    )
    planted: PlantedRule | None = setting(
        "Rule that plants words into shortened texts with random labels.",
        None,
        only="words",
    )
    planted_words: int = setting(
        "Words that the rule decisive plants into a text: those of the class, less those against "
        "it. More than one are redundant.",
        1,
        least=1,
        most=4,
        only="words",
    )
    planted_counter: int = setting(
        "Words against the class that are planted as well, each with one more of the class.",
        0,
        least=0,
        most=3,
        only="words",
    )
    planted_length: int | None = setting(
        "Words of a planted text, filled up from other texts; default: at most 24.",
        None,
        least=20,
        only="words",
    )
    planted_classes: Literal[2, 4] = setting("Classes of planted texts.", 2, only="words")
    planted_neutral: float = setting(
        "Share of the planted texts of train and dev that are added without the words that decide, "
        "once with each label, and as often without the decoys.",
        0.0,
        least=0,
        most=1,
        only="words",
    )

    def columns(self, label: str | None, label_needed: bool = True) -> Columns:
        """Return the names of a table's columns; those of labels by the reader's own choice."""
        others = {role: getattr(self, role) for role in ROLES if role != "label"}
        return Columns(**others, label=label, label_needed=label_needed)


@dataclass(frozen=True)
class ParallelSpec(_Spec):
    """A corpus of pairs: a registered name or a folder of files ``<split>.<ending>``."""

    source_ending: str = _own("Ending of the source files of a folder, before .gz.", default="src")
    target_ending: str = _own("Ending of the target files of a folder, before .gz.", default="trg")
    dev: str = _own("Name of the dev files of a folder.", default="dev")
    test: str = _own("Name of the test files of a folder.", default="test")
    max_words: int = setting(
        "A pair with more words on a side is a bad row.", 100, least=1, only="files"
    )
    units: UnitName | None = setting(
        "Units of the texts: learned pieces, or words; default: the corpus's own, else pieces.",
        None,
    )
    pieces: int = setting("Largest number of pieces learned from train.", 4000)
    min_df: int | None = setting(
        "Train texts that a unit must occur in to enter the vocabulary; default: 2 for words, 1 "
        "for pieces.",
        None,
        least=1,
    )
    symbols: int | None = _planted("Number of different words on each side of generated pairs.")

    @property
    def chosen_units(self) -> UnitName:
        """The units: those set, else the corpus's own."""
        entry = CORPORA.get(self.source)
        return self.units or (entry.units if entry else "pieces")

    @property
    def chosen_min_df(self) -> int:
        """The number set, else 2 for words.

        A word of a single text teaches nothing; pieces and planted words are in many texts.
        """
        entry = CORPORA.get(self.source)
        is_rare = self.chosen_units == "words" and not (entry and entry.generate)
        return self.min_df or (2 if is_rare else 1)


Spec = TypeVar("Spec", bound=_Spec)


def spec_of(kind: type[Spec], source: object, options: Mapping[str, Any]) -> Spec:
    """Make a spec of the options of a call, of which paths may be some. Raises InputError."""
    plain = {name: str(one) if isinstance(one, Path) else one for name, one in options.items()}
    if kind is ParallelSpec and (roles := [role for role in ROLES if role in plain]):
        where, got = column_option(roles[0]), f"{source}, a corpus of pairs"
        raise InputError("read settings", where, got, "texts with columns", "leave it out")
    return from_plain(kind, {"source": str(source), **plain}, "corpus")


def require_used(spec: _Spec, *kinds: str) -> None:
    """Raise InputError for a setting without effect on a corpus of these kinds."""
    options = {role: column_option(role) for role in ROLES}
    refuse_unused(spec, "corpus", kinds, f"corpus {spec.source}", _KINDS, options)


def generated(spec: _Spec) -> dict[str, Any]:
    """Return what is set of how a planted corpus is made. Raises InputError for other settings."""
    require_used(spec, "planted", "words")
    names = ("size", "length", "symbols")
    return {name: value for name in names if (value := getattr(spec, name, None)) is not None}
