"""Read a sentence with the model of a run: tokens, attention, prediction, and the playground."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnaudit.core import InputError
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.report.fragment import facts_of
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.sections.playground import epsilon_of, playground_data
from attnaudit.results import About
from attnaudit.server.files import require_own
from attnaudit.steps import SPEC, read_spec, require_finished

if TYPE_CHECKING:
    from attnaudit.models.classifier import AttentionModel

MOST_CHARACTERS = 10_000
MOST_WORDS = 400
WARMING = "warm up: the first reading compiles and loads"


def why_not(folder: Path) -> str | None:
    """Say why no sentence can be typed for a run; None if one can. Loads nothing.

    Raises:
        RunError: The run is not finished, or was changed since.
    """
    require_finished(folder)
    require_own(folder, SPEC, "model/")
    spec = read_spec(folder)
    if spec.get("kind") != "run" or not (folder / "model" / "weights.safetensors").is_file():
        return (
            "sentences can be typed for classifiers and question answering that attnaudit trained, "
            "with their model in the run"
        )
    if spec["model"]["attention"] == "imposed":
        return "the attention of this model is given from outside"
    if not (find_spec("torch") and find_spec("spacy")):
        return "typing sentences needs pip install 'attnaudit[train]'"
    return None


@dataclass(frozen=True)
class Reader:
    """Reads sentences with one model.

    Attributes:
        model: The model.
        tokenise: Finds words as the corpus of the model does.
        epsilon: Change of the output that an adversary is allowed.
    """

    model: AttentionModel
    tokenise: Callable[[str], list[str]]
    epsilon: float

    @classmethod
    def of(cls, folder: Path) -> Reader:
        """Load the model of a run, and compile what a reading needs. Raises RunError."""
        from attnaudit.corpora.read import word_rules
        from attnaudit.models.classifier import load_model

        spec = read_spec(folder)
        model = load_model(folder / "model").eval()
        known = {field.name for field in fields(CorpusSpec)} - {"planted"}
        corpus = {name: value for name, value in spec["corpus"].items() if name in known}
        task = "question_answering" if model.has_question else "classification"
        epsilon = epsilon_of(About.of(spec, {}), task)
        reader = cls(model, word_rules(CorpusSpec(**corpus)), epsilon)
        reader.read(WARMING, WARMING if model.has_question else None)
        return reader

    def read(self, text: str, question: str | None = None) -> dict[str, Any]:
        """Compute what the playground of a page needs.

        Args:
            text: The text.
            question: Question, for a model that reads one.

        Returns:
            `playground_data`, the words that the model does not know, and a remark.

        Raises:
            InputError: A text has no words or more than `MOST_WORDS`, or a question is missing or
                not expected.
        """
        from attnaudit.corpora.corpus import Split
        from attnaudit.trace import Trace, concatenate
        from attnaudit.tracing.texts import collect_shards

        words, asked = self._words(text, "text"), self.model.has_question
        if asked != bool(question):
            alone = "a question", "none: the model reads texts alone"
            got, expected = ("none", "a question") if asked else alone
            raise InputError("read a sentence", "question", got, expected)
        questions = [self._words(question, "question")] if question else None
        split = Split(np.zeros(1, np.int64), [words], np.zeros(1, np.int32), question=questions)
        trace = concatenate(list(collect_shards(self.model, split, "typed", scores=())))
        # Nobody gave a label.
        trace = Trace(trace.table.drop("label"), trace.metadata, trace.tail)
        data = playground_data(trace, facts_of(trace, self.epsilon), self.epsilon)
        unknown = {visible(word) for word in set(words) - set(self.model.vocabulary.known)}
        remark = "a text of one word has all attention on it: nothing can be moved"
        remark = remark if len(words) == 1 else None
        return {**data, "unknown": sorted(unknown), "remark": remark}

    def _words(self, text: str, name: str) -> list[str]:
        words = self.tokenise(text)
        if not 1 <= len(words) <= MOST_WORDS:
            expected = f"1 to {MOST_WORDS} words"
            raise InputError("read a sentence", name, f"{len(words)} words", expected)
        return words
