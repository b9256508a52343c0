"""The whole resolved configuration of the training of a pretrained transformer, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from attnaudit.core.given import expanded
from attnaudit.core.model_folder import check_to_tune
from attnaudit.core.settings import Settings, setting
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.corpora.spec import spec_of as corpus_spec
from attnaudit.plans.audit import USUAL_SAMPLE
from attnaudit.plans.spec import (
    BY_OPTION,
    Spec,
    corpus_name,
    refuse_options,
    refuse_settings,
    resolve,
    task_settings,
)
from attnaudit.plans.transformer import TransformerCollect, refuse_class_weight
from attnaudit.tracing.settings import ReplacementSettings
from attnaudit.training.settings import Deceive, Guided, TrainingSettings
from attnaudit.training.transformers import Schedule

# As usual for such encoders (Devlin et al. 2019).
_TRAINING = TrainingSettings(
    epochs=2, learning_rate=5e-5, weight_decay=0.01, class_weight=False, select="accuracy"
)
_COLLECT = TransformerCollect(sample=USUAL_SAMPLE)


@dataclass(frozen=True)
class PretrainedModel(Settings):
    """Settings of a pretrained transformer."""

    name: ClassVar = "model"
    length: int = setting(
        "Longest text in tokens, special ones included; longer ones are cut.", 128, least=4
    )


@dataclass(frozen=True)
class FineTuning(Spec):
    """One training of a pretrained transformer as a classifier, and its audit.

    Attributes:
        corpus: The corpus.
        folder: Folder of the model.
        weights: sha256 of its weights.
        model: Settings of the model.
        training: Settings of the training loop.
        schedule: Schedule of the learning rate.
        objective: Penalty on the mean attention of the last layer, besides the loss on labels.
        seed: Seed of the split, the head and the training.
        collect: Settings of the trace.
        replacement: Settings of the copies of texts with words replaced.
        experiments: Settings of every experiment by name.
    """

    kind: ClassVar[str] = "fine-tuning"
    device: ClassVar[str] = "cpu"
    probe: ClassVar[None] = None
    causal: ClassVar[bool] = False
    corpus: CorpusSpec
    folder: str = ""
    weights: str = ""
    model: PretrainedModel = PretrainedModel()
    training: TrainingSettings = _TRAINING
    schedule: Schedule = field(default_factory=Schedule)
    objective: Deceive | Guided | None = None
    seed: int = 0
    collect: TransformerCollect = _COLLECT
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    experiments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        source: str | Path,
        *,
        folder: str | Path,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        **corpus: Any,
    ) -> FineTuning:
        """Make the spec of a training.

        Args:
            source: The corpus.
            folder: Folder of the model and its tokenizer.
            seed: Seed of the split, the head and the training.
            settings: Settings by dotted name, such as ``{"training.epochs": 4}``.
            **corpus: Other fields of `CorpusSpec`.

        Raises:
            InputError: For an unknown name or setting, or a folder without a model.
        """
        place = expanded(folder)
        refuse_options(corpus, [one.name for one in fields(CorpusSpec)], place.name)
        refuse_settings(settings or {}, BY_OPTION)
        usual = cls(corpus_spec(CorpusSpec, source, corpus), str(place), check_to_tune(place))
        names = ("corpus", "model", "training", "schedule", "collect", "replacement")
        sections = {name: getattr(usual, name) for name in names}
        changed = resolve(sections, task_settings(None) | dict(settings or {}))
        refuse_class_weight(changed["training"])
        return cls(folder=usual.folder, weights=usual.weights, seed=seed, **changed)

    @property
    def config(self) -> str:
        """Name of the folder."""
        return Path(self.folder).resolve().name

    @property
    def name(self) -> str:
        """``<corpus>-<folder>-s<seed>``, the default name of the run's folder."""
        return f"{corpus_name(self.corpus.source)}-{self.config}-s{self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds: of the folder its name, and the sha256 of weights."""
        plain = super().to_json()
        model = {"name": self.config, "weights": plain.pop("weights"), **plain["model"]}
        del plain["folder"]
        return {**plain, "model": model}
