"""The options of a corpus, each declared once: commands, ``spec.json`` and readers use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from attnaudit.core.settings import check_settings, refuse_unused, setting
from attnaudit.corpora.registry import CORPORA, UnitName

Preset = Literal["paper", "code2019", "flan", "han"]
_file = partial(setting, only="files")
_own = partial(setting, default=None, only="own")
_planted = partial(setting, default=None, only="planted")
_DATA_DIR = "Folder with the registered corpora; default: $ATTNAUDIT_DATA, then the user's cache."
_BAD_ROWS = "error: stop at the first bad row; skip: exclude and list it."
_SIZE = "Number of generated instances, over all splits."
_LENGTH = "Fewest and most words of a generated text."
_SEED = "Seed that draws the splits, or the generated texts; default: the seed of the run."
_ENCODING = "such as latin-1, cp1252 or utf-16; default: utf-8."
_data_dir = partial(setting, _DATA_DIR, None, flag="--data-dir", metavar="DIR")
_share = partial(setting, above=0, most=1, only="files")


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus of labelled texts: a registered name, a file or a folder, and how it is read.

    A run applies ``removed`` and ``planted`` after reading, so that trainings of one study share
    what was read.

    Raises:
        InputError: For a value outside its choices or bounds.
    """

    source: str = setting("A registered name, a file or a folder.")
    data_dir: str | None = _data_dir()
    text: str = _own("Column with the text.", default="text", flag="--text-column")
    label: str = _own("Column with the label.", default="label", flag="--label-column")
    question: str | None = _own(
        "Column with the question, or the hypothesis, that goes with the text.",
        flag="--question-column",
    )
    rationale: str | None = _own(
        "Column with the [start, stop] character ranges of the words known to matter "
        "(jsonl, parquet).",
        flag="--rationale-column",
    )
    on_bad_row: Literal["error", "skip"] = _file(_BAD_ROWS, "error", flag="--on-bad-row")
    max_tokens: int | None = _file(
        "Cut texts to this many tokens.", None, flag="--max-tokens", least=1
    )
    min_df: int | None = _file(
        "Train texts that a word must occur in to enter the vocabulary; default: the corpus's own, "
        "else 1, 5 or 10 by size.",
        None,
        least=1,
    )
    train_kept: float | None = _share(
        "Share of the train rows to use; default: the corpus's own, else 1.", None
    )
    test_kept: float | None = _share(
        "Share of the test rows to use; default: the corpus's own, else 1.", None
    )
    sentences: Literal["rule", "lines"] = _file(
        "How texts are split into sentences, for hierarchical models: by a rule, or at line ends.",
        "rule",
    )
    digits: Literal["keep", "mask"] | None = _own(
        "Words with a digit in your own texts: keep them, or mask (read each as qqq, as in Jain & "
        "Wallace 2019); default: keep.",
        flag="--digits",
    )
    lowercase: bool | None = _own(
        "Lower-case all words, or none; default: all.", flag="--lowercase/--no-lowercase"
    )
    tokenizer: str | None = _own(
        "Tokenizer: the code of a spaCy language (en, de, fr, …; xx for any), or whitespace; "
        "default: en.",
        flag="--tokenizer",
        metavar="CODE",
    )
    encoding: str | None = _own(
        f"Encoding of a csv, tsv or jsonl file, {_ENCODING}", flag="--encoding"
    )
    delimiter: str | None = _own(
        "Separator of a csv or tsv file: one character, or tab; default: by the file's ending.",
        flag="--delimiter",
        metavar="CHARACTER",
    )
    size: int | None = _planted(_SIZE)
    length: tuple[int, int] | None = _planted(_LENGTH)
    seed: int | None = setting(_SEED, None)
    removed: Literal["rationale"] | tuple[str, ...] | None = setting(
        "What to remove from every text: its rationale, or these words.", None
    )
    planted: Literal["decisive", "twice", "majority", "last", "many", "decoy", "random"] | None = (
        setting(
            "Rule that plants words into shortened texts with random labels (docs/calibration.md).",
            None,
        )
    )

    def __post_init__(self) -> None:
        check_settings(self, "corpus")


@dataclass(frozen=True)
class ParallelSpec:
    """A corpus of pairs: a registered name or a folder of files ``<split>.<ending>``.

    Raises:
        InputError: For a value outside its choices or bounds.
    """

    source: str = setting("A registered name, or a folder of pairs.")
    data_dir: str | None = _data_dir()
    source_ending: str = _own("Ending of the source files of a folder, before .gz.", default="src")
    target_ending: str = _own("Ending of the target files of a folder, before .gz.", default="trg")
    encoding: str | None = _own(
        f"Encoding of the files of a folder of pairs, {_ENCODING}", flag="--encoding"
    )
    dev: str = _own("Name of the dev files of a folder.", default="dev")
    test: str = _own("Name of the test files of a folder.", default="test")
    max_words: int = _file("A pair with more words on a side is a bad row.", 100, least=1)
    on_bad_row: Literal["error", "skip"] = _file(_BAD_ROWS, "error")
    train_kept: float = _share("Share of the train pairs to use.", 1.0)
    test_kept: float = _share("Share of the test pairs to use.", 1.0)
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
    seed: int | None = setting(_SEED, None)
    size: int | None = _planted(_SIZE)
    length: tuple[int, int] | None = _planted(_LENGTH)
    symbols: int | None = _planted("Number of different words on each side of generated pairs.")

    def __post_init__(self) -> None:
        check_settings(self, "corpus")

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


Spec = CorpusSpec | ParallelSpec
_refuse = partial(refuse_unused, name="corpus")


def generated(spec: Spec) -> dict[str, Any]:
    """Return what is set of how a planted corpus is made. Raises InputError for other settings."""
    got, expected = f"corpus {spec.source}", "a corpus that is read from files"
    _refuse(spec, kinds=["planted"], got=got, expected=expected)
    names = ("size", "length", "symbols")
    return {name: value for name in names if (value := getattr(spec, name, None)) is not None}


def refuse_generated(spec: Spec) -> None:
    """Raise InputError for a setting of planted corpora on one that is read from files."""
    got = f"corpus {spec.source}"
    _refuse(spec, kinds=["files", "own"], got=got, expected="a corpus planted-<kind>")


def refuse_own(spec: Spec) -> None:
    """Raise InputError for a setting of a user's own files on a registered corpus."""
    got, expected = f"registered corpus {spec.source}", "a file or a folder of your own"
    _refuse(spec, kinds=["files", "planted"], got=got, expected=expected)
