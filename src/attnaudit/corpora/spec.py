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
_ON_BAD_ROW: dict[str, Any] = {"help": "error: stop at the first bad row; skip: exclude and list it.", "default": "error", "only": "files"}
_SHARE: dict[str, Any] = {"above": 0, "most": 1, "only": "files"}
_SEED: dict[str, Any] = {"help": "Seed that draws the splits, or the generated texts; default: the seed of the run.", "default": None}
_SIZE: dict[str, Any] = {"help": "Number of generated instances, over all splits.", "default": None, "only": "planted"}
_LENGTH: dict[str, Any] = {"help": "Fewest and most words of a generated text.", "default": None, "only": "planted"}


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
        "Column with the question, or the hypothesis, that goes with the text.", None, flag="--question-column", only="files"
    )
    rationale: str | None = setting(
        "Column with the [start, stop] characters of the text that are known to matter (jsonl, parquet).", None,
        flag="--rationale-column", only="files",
    )  # fmt: skip
    on_bad_row: Literal["error", "skip"] = setting(**_ON_BAD_ROW, flag="--on-bad-row")
    max_tokens: int | None = setting("Cut texts to this many tokens.", None, flag="--max-tokens", least=1, only="files")
    min_df: int | None = setting(
        "Train texts that a word must occur in to be known; default: the corpus's own, else 1, 5 or 10 by size.", None,
        least=1, only="files",
    )  # fmt: skip
    train_kept: float | None = setting("Share of the train rows that is used; default: the corpus's own, else 1.", None, **_SHARE)
    test_kept: float | None = setting("Share of the test rows that is used; default: the corpus's own, else 1.", None, **_SHARE)
    sentences: Literal["rule", "lines"] = setting(
        "Where sentences end, for hierarchical models: found by a rule, or at the ends of lines.", "rule", only="files"
    )
    size: int | None = setting(**_SIZE)
    length: tuple[int, int] | None = setting(**_LENGTH)
    seed: int | None = setting(**_SEED)
    removed: Literal["rationale"] | tuple[str, ...] | None = setting("Words that are removed from every text, or its rationale.", None)

    def __post_init__(self) -> None:
        check_settings(self, "corpus")


@dataclass(frozen=True)
class ParallelSpec:
    """A corpus of sentence pairs: a registered name, a folder of files ``<split>.<ending>``, or ``planted-<kind>``, and how it is read.

    Raises InputError for a value outside its choices or bounds.
    """

    source: str = setting("A registered name, or a folder of pairs.")
    data_dir: str | None = setting(**_DATA_DIR)
    source_ending: str = setting("Ending of the source files of a folder, before .gz.", "src", only="files")
    target_ending: str = setting("Ending of the target files of a folder, before .gz.", "trg", only="files")
    dev: str = setting("Name of the dev files of a folder.", "dev", only="files")
    test: str = setting("Name of the test files.", "test", only="files")
    max_words: int = setting("A pair with more words on a side is a bad row.", 100, least=1, only="files")
    on_bad_row: Literal["error", "skip"] = setting(**_ON_BAD_ROW)
    train_kept: float = setting("Share of the train pairs that is used.", 1.0, **_SHARE)
    test_kept: float = setting("Share of the test pairs that is used.", 1.0, **_SHARE)
    units: UnitName | None = setting("Units of the texts: learned pieces, or words; default: the corpus's own, else pieces.", None)
    pieces: int = setting("Most pieces that are learned from train.", 4000)
    min_df: int | None = setting("Train texts that a unit must occur in to be known; default: 2 for words, 1 for pieces.", None, least=1)
    seed: int | None = setting(**_SEED)
    size: int | None = setting(**_SIZE)
    length: tuple[int, int] | None = setting(**_LENGTH)
    symbols: int | None = setting("Number of different words on each side of generated pairs.", None, only="planted")

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
        return 2 if self.chosen_units == "words" and not (self._entry and self._entry.generate) else 1


def generated(spec: CorpusSpec | ParallelSpec) -> dict[str, Any]:
    """What is set of how a planted corpus is generated: size, length, symbols. Raises InputError for a setting of files."""
    refuse_unused(spec, "corpus", "planted", f"corpus {spec.source}", "a corpus that is read from files")
    chosen = {name: getattr(spec, name, None) for name in ("size", "length", "symbols")}
    return {name: value for name, value in chosen.items() if value is not None}


def refuse_generated(spec: CorpusSpec | ParallelSpec) -> None:
    """Raise InputError for a setting of planted corpora on one that is read from files."""
    refuse_unused(spec, "corpus", "files", f"corpus {spec.source}", f"a corpus {PLANTED}<kind>")
