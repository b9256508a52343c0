"""The options of a corpus, each declared once: the command line, ``spec.json`` and the readers take them from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core.settings import check_settings, refuse_unused, setting

if TYPE_CHECKING:
    from attnaudit.corpora.entry import CorpusEntry

PLANTED = "planted-"  # begins the names of corpora that are generated from a seed
Preset = Literal["paper", "code2019", "flan", "han"]
UnitName = Literal["pieces", "words"]
_DATA_DIR: dict[str, Any] = {
    "help": "Folder with the registered corpora; default: $ATTNAUDIT_DATA, then the user's cache.",
    "default": None, "flag": "--data-dir", "metavar": "DIR",
}  # fmt: skip
_ON_BAD_ROW: dict[str, Any] = {
    "help": "error: stop at the first bad row; skip: exclude and list it.",
    "default": "error",
    "only": "files",
}
_SHARE: dict[str, Any] = {"above": 0, "most": 1, "only": "files"}
_SEED: dict[str, Any] = {
    "help": "Seed that draws the splits, or the generated texts; default: the seed of the run.",
    "default": None,
}
_SIZE: dict[str, Any] = {
    "help": "Number of generated instances, over all splits.",
    "default": None,
    "only": "planted",
}
_LENGTH: dict[str, Any] = {
    "help": "Fewest and most words of a generated text.",
    "default": None,
    "only": "planted",
}


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus of labelled texts: a registered name, a file, a folder, or ``planted-<kind>``, and how it is read.

    ``removed`` is applied by a run after reading (`without_words`), so that trainings of one study share what was read. Raises InputError
    for a value outside its choices or bounds.
    """

    source: str = setting("A registered name, a file or a folder.")
    data_dir: str | None = setting(**_DATA_DIR)
    text: str = setting("Column with the text.", "text", flag="--text-column", only="files")
    label: str = setting("Column with the label.", "label", flag="--label-column", only="files")
    question: str | None = setting(
        "Column with the question, or the hypothesis, that goes with the text.",
        None,
        flag="--question-column",
        only="files",
    )
    rationale: str | None = setting(
        "Column with the [start, stop] character ranges of the words known to matter (jsonl, parquet).", None,
        flag="--rationale-column", only="files",
    )  # fmt: skip
    on_bad_row: Literal["error", "skip"] = setting(**_ON_BAD_ROW, flag="--on-bad-row")
    max_tokens: int | None = setting(
        "Cut texts to this many tokens.", None, flag="--max-tokens", least=1, only="files"
    )
    min_df: int | None = setting(
        "Train texts that a word must occur in to enter the vocabulary; default: the corpus's own, else 1, 5 or 10 by size.", None,
        least=1, only="files",
    )  # fmt: skip
    train_kept: float | None = setting(
        "Share of the train rows to use; default: the corpus's own, else 1.", None, **_SHARE
    )
    test_kept: float | None = setting(
        "Share of the test rows to use; default: the corpus's own, else 1.", None, **_SHARE
    )
    sentences: Literal["rule", "lines"] = setting(
        "How texts are split into sentences, for hierarchical models: by a rule, or at line ends.",
        "rule",
        only="files",
    )
    digits: Literal["keep", "mask"] | None = setting(
        "Words with a digit in your own texts: keep them, or mask (read each as qqq, as in Jain & Wallace 2019); default: keep.", None,
        flag="--digits", only="own",
    )  # fmt: skip
    lowercase: bool | None = setting(
        "Lower-case all words, or none; default: all.",
        None,
        flag="--lowercase/--no-lowercase",
        only="own",
    )
    tokenizer: str | None = setting(
        "Tokenizer: the code of a spaCy language (en, de, fr, …; xx for any), or whitespace; default: en.", None,
        flag="--tokenizer", metavar="CODE", only="own",
    )  # fmt: skip
    encoding: str | None = setting(
        "Encoding of a csv, tsv or jsonl file, such as latin-1, cp1252 or utf-16; default: utf-8.",
        None,
        flag="--encoding",
        only="own",
    )
    delimiter: str | None = setting(
        "Separator of a csv or tsv file: one character, or tab; default: by the file's ending.", None,
        flag="--delimiter", metavar="CHARACTER", only="own",
    )  # fmt: skip
    size: int | None = setting(**_SIZE)
    length: tuple[int, int] | None = setting(**_LENGTH)
    seed: int | None = setting(**_SEED)
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
        if self.digits is None and not _is_registered(self.source):
            object.__setattr__(
                self, "digits", "keep"
            )  # stated, for runs from before there was a choice masked them


def _is_registered(source: str) -> bool:
    from attnaudit.corpora.registry import CORPORA

    return source in CORPORA


@dataclass(frozen=True)
class ParallelSpec:
    """A corpus of sentence pairs: a registered name, a folder of files ``<split>.<ending>``, or ``planted-<kind>``, and how it is read.

    Raises InputError for a value outside its choices or bounds.
    """

    source: str = setting("A registered name, or a folder of pairs.")
    data_dir: str | None = setting(**_DATA_DIR)
    source_ending: str = setting(
        "Ending of the source files of a folder, before .gz.", "src", only="files"
    )
    target_ending: str = setting(
        "Ending of the target files of a folder, before .gz.", "trg", only="files"
    )
    encoding: str | None = setting(
        "Encoding of the files of a folder of pairs, such as latin-1, cp1252 or utf-16; default: utf-8.",
        None,
        flag="--encoding",
        only="own",
    )
    dev: str = setting("Name of the dev files of a folder.", "dev", only="files")
    test: str = setting("Name of the test files.", "test", only="files")
    max_words: int = setting(
        "A pair with more words on a side is a bad row.", 100, least=1, only="files"
    )
    on_bad_row: Literal["error", "skip"] = setting(**_ON_BAD_ROW)
    train_kept: float = setting("Share of the train pairs to use.", 1.0, **_SHARE)
    test_kept: float = setting("Share of the test pairs to use.", 1.0, **_SHARE)
    units: UnitName | None = setting(
        "Units of the texts: learned pieces, or words; default: the corpus's own, else pieces.",
        None,
    )
    pieces: int = setting("Largest number of pieces learned from train.", 4000)
    min_df: int | None = setting(
        "Train texts that a unit must occur in to enter the vocabulary; default: 2 for words, 1 for pieces.",
        None,
        least=1,
    )
    seed: int | None = setting(**_SEED)
    size: int | None = setting(**_SIZE)
    length: tuple[int, int] | None = setting(**_LENGTH)
    symbols: int | None = setting(
        "Number of different words on each side of generated pairs.", None, only="planted"
    )

    def __post_init__(self) -> None:
        check_settings(self, "corpus")

    @property
    def _entry(self) -> CorpusEntry | None:
        from attnaudit.corpora.registry import CORPORA

        return CORPORA.get(self.source)

    @property
    def chosen_units(self) -> UnitName:
        return self.units or (self._entry.units if self._entry else "pieces")

    @property
    def chosen_min_df(self) -> int:
        """A word of a single text teaches nothing about it; pieces, and planted words, are in many texts."""
        if self.min_df is not None:
            return self.min_df
        return (
            2 if self.chosen_units == "words" and not (self._entry and self._entry.generate) else 1
        )


def generated(spec: CorpusSpec | ParallelSpec) -> dict[str, Any]:
    """What is set of how a planted corpus is generated: size, length, symbols. Raises InputError for a setting of files."""
    refuse_unused(
        spec, "corpus", ["planted"], f"corpus {spec.source}", "a corpus that is read from files"
    )
    chosen = {name: getattr(spec, name, None) for name in ("size", "length", "symbols")}
    return {name: value for name, value in chosen.items() if value is not None}


def refuse_generated(spec: CorpusSpec | ParallelSpec) -> None:
    """Raise InputError for a setting of planted corpora on one that is read from files."""
    refuse_unused(
        spec, "corpus", ["files", "own"], f"corpus {spec.source}", f"a corpus {PLANTED}<kind>"
    )


def refuse_own(spec: CorpusSpec | ParallelSpec) -> None:
    """Raise InputError for a setting of one's own files on a registered corpus, which is read as its paper says."""
    refuse_unused(
        spec,
        "corpus",
        ["files", "planted"],
        f"registered corpus {spec.source}",
        "a file or a folder of your own",
    )
