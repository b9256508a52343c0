"""A sentence of one's own read by the model of a run: tokens, attention, prediction, and what the playground asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.report.fragment import facts_of
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.sections.playground import epsilon_of, playground_data
from attnaudit.results.about import About
from attnaudit.steps.finished import read_spec, require_finished

if TYPE_CHECKING:
    from attnaudit.models.classifier import AttentionModel
    from attnaudit.trace import Trace

MOST_CHARACTERS = 10_000
MOST_WORDS = 400
WARMING = "warm up: the first reading compiles and loads"


def why_not(folder: Path) -> str | None:
    """Why sentences cannot be typed for this run; None where they can. Loads nothing. Raises RunError for a run that was changed since."""
    require_finished(folder)
    spec = read_spec(folder)
    if spec.get("kind") != "run" or not (folder / "model" / "weights.safetensors").is_file():
        return "sentences can be typed for classifiers and question answering that attnaudit trained, with their model in the run"
    if spec["model"]["attention"] == "imposed":
        return "the attention of this model is given from outside"
    return (
        None
        if find_spec("torch") and find_spec("spacy")
        else "typing sentences needs pip install 'attnaudit[train]'"
    )


@dataclass(frozen=True)
class Reader:
    """The model of a run and the rules by which its corpus finds words."""

    model: AttentionModel
    tokenise: Callable[[str], list[str]]
    epsilon: float
    title: str

    @classmethod
    def of(cls, folder: Path) -> Reader:
        """Load the model of a run, and have everything compiled that a reading needs. Raises RunError."""
        from attnaudit.corpora.read import word_rules
        from attnaudit.models.classifier import load_model

        spec = read_spec(folder)
        model = load_model(folder / "model").eval()
        about = About.of(spec, {})
        task = "question_answering" if model.has_question else "classification"
        reader = cls(
            model,
            word_rules(_corpus_spec(spec["corpus"]), spec["preset"]),
            epsilon_of(about, task),
            folder.resolve().name,
        )
        reader.read(WARMING, WARMING if model.has_question else None)
        return reader

    def read(self, text: str, question: str | None = None) -> dict[str, Any]:
        """What the page's playground computes with, as `playground_data`, and the words that the model does not know.

        Raises InputError for a text without words or with more than `MOST_WORDS`, and for a question that is missing or not expected.
        """
        words = self._words(text, "text")
        asked = self._question(question)
        trace = self._trace(words, asked)
        data = playground_data(trace, facts_of(trace, self.epsilon), self.epsilon)
        known = set(self.model.vocabulary.known)
        short = (
            "a text of one word has all attention on it: nothing can be moved"
            if len(words) == 1
            else None
        )
        return {
            **data,
            "unknown": sorted({visible(word) for word in words if word not in known}),
            "remark": short,
        }

    def _words(self, text: str, name: str) -> list[str]:
        words = self.tokenise(text)
        if not 1 <= len(words) <= MOST_WORDS:
            raise InputError(
                "read a sentence", name, f"{len(words)} words", f"1 to {MOST_WORDS} words"
            )
        return words

    def _question(self, question: str | None) -> list[list[str]] | None:
        if self.model.has_question != bool(question):
            got, expected = (
                ("none", "a question")
                if self.model.has_question
                else ("a question", "none: the model reads texts alone")
            )
            raise InputError("read a sentence", "question", got, expected)
        return [self._words(question, "question")] if question else None

    def _trace(self, words: list[str], question: list[list[str]] | None) -> Trace:
        from attnaudit.corpora.corpus import Split
        from attnaudit.trace import Trace, concatenate
        from attnaudit.tracing.texts import collect_shards

        split = Split(np.zeros(1, np.int64), [words], np.zeros(1, np.int32), question=question)
        trace = concatenate(list(collect_shards(self.model, split, "typed", scores=())))
        return Trace(trace.table.drop(["label"]), trace.metadata, trace.tail)  # nobody gave one


def _corpus_spec(recorded: Mapping[str, Any]) -> CorpusSpec:
    known = {field.name for field in fields(CorpusSpec)}
    return CorpusSpec(
        **{name: value for name, value in recorded.items() if name in known and name != "planted"}
    )
