"""The kinds of models that can be trained, and the corpus that was read last for one of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnaudit.core import InputError, Progress, content_key, did_you_mean, expanded, require
from attnaudit.corpora.registry import is_parallel
from attnaudit.models.presets import ENCODERS, ERASURE_PRESETS
from attnaudit.plans.spec import RunSpec, TranslationSpec
from attnaudit.plans.transformer import FineTuning, TransformerTraining
from attnaudit.recipes.job import Trained, corpus_seed
from attnaudit.studies import PAIR_STUDIES, STUDIES, TRANSFORMER_STUDIES, TUNED_STUDIES, Study
from attnaudit.training.transformers import CONFIGS


@dataclass(frozen=True)
class Kind:
    """A kind of model that can be trained.

    Attributes:
        spec: Class of its specifications.
        needs: Extras of the installation that have its packages.
        studies: Studies of such models, by name.
    """

    spec: Any
    needs: tuple[str, ...]
    studies: Mapping[str, type[Study]]


CLASSIFIERS = Kind(RunSpec, ("train",), STUDIES)
TRANSLATORS = Kind(TranslationSpec, ("translate",), PAIR_STUDIES)
TRANSFORMERS = Kind(TransformerTraining, ("train", "hf"), TRANSFORMER_STUDIES)
FINE_TUNED = Kind(FineTuning, ("train", "hf"), TUNED_STUDIES)
KINDS = {kind.spec.kind: kind for kind in (CLASSIFIERS, TRANSLATORS, TRANSFORMERS, FINE_TUNED)}
# Settings that a corpus of pairs alone has.
_OF_PAIRS = {"corpus.source_ending", "corpus.target_ending"}
TRANSLATOR = "translator"
Read = Callable[[Any, Progress], Any]  # the corpus of a specification
# Settings of a corpus: the first is given apart, the others are of what was read.
_AFTER_READING = ("seed", "removed", "classes")


def models() -> list[str]:
    """Return the names of models that can be trained."""
    return [*ENCODERS, *ERASURE_PRESETS, *CONFIGS, TRANSLATOR]


def model_options(model: str | None) -> dict[str, Any]:
    """Return the options of a specification that name a model.

    Raises:
        InputError: If there is no such model.
    """
    if model in (None, TRANSLATOR):
        return {}
    for option, known in (("encoder", ENCODERS), ("preset", ERASURE_PRESETS), ("config", CONFIGS)):
        if model in known:
            return {option: model}
    if model is not None and expanded(model).is_dir():
        return {"folder": model}
    expected = f"one of {', '.join(models())}, or the folder of a pretrained transformer"
    near = did_you_mean(model, models())
    raise InputError("choose a model", f"--model {model}", "no such model", expected, near)


def kind_of(spec: Any) -> Kind:
    """Return the kind of model of a specification."""
    return KINDS[spec.kind]


def job_of(spec: Any) -> type[Trained]:
    """Return what trains a model of this kind. Raises RunError if packages are missing."""
    for extra in kind_of(spec).needs:
        require(extra, spec.kind)
    # These import torch.
    if isinstance(spec, RunSpec):
        from attnaudit.recipes.classifier import Classifier

        return Classifier
    if isinstance(spec, TranslationSpec):
        from attnaudit.recipes.translator import Translation

        return Translation
    from attnaudit.recipes.small_transformer import FineTuned, SmallTransformer

    return FineTuned if isinstance(spec, FineTuning) else SmallTransformer


def kind_of_corpus(
    source: str | Path, settings: Iterable[str] = (), named: Iterable[str] = ()
) -> Kind:
    """Return the kind of model for a corpus.

    Args:
        source: Registered name, file or folder.
        settings: Dotted settings that are given.
        named: Options that name the model (`model_options`).

    Raises:
        InputError: For a name that nothing has.
    """
    if "folder" in named:
        return FINE_TUNED
    if "config" in named:
        return TRANSFORMERS
    of_pairs = _OF_PAIRS.intersection(settings) or is_parallel(str(source))
    return TRANSLATORS if of_pairs else CLASSIFIERS


@dataclass
class LastCorpus:
    """Reads the corpora of specifications; one is in memory at a time, or why it is not."""

    key: str = ""
    found: Any = None

    def __call__(self, spec: Any, progress: Progress) -> Any:
        """Return the corpus of ``spec``. Raises InputError."""
        plain = spec.to_json()["corpus"].items()
        how = {name: value for name, value in plain if name not in _AFTER_READING}
        key = content_key(spec.kind, how, corpus_seed(spec), getattr(spec, "preset", None))
        if key != self.key:
            self.key, self.found = "", None  # free before the next is read
            try:
                self.found = job_of(spec).read(spec, progress)
            except InputError as error:
                self.found = error
            self.key = key
        if isinstance(self.found, InputError):
            raise self.found
        return self.found
