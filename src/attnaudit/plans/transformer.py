"""The whole resolved configuration of the training of a transformer, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from attnaudit.core import InputError, expanded
from attnaudit.core.model_folder import check_to_tune
from attnaudit.core.settings import Settings, setting
from attnaudit.corpora.spec import CorpusSpec, spec_of
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
from attnaudit.tracing.settings import HEATMAP, HEATMAP_MEANING, ReplacementSettings
from attnaudit.training.settings import Deceive, Guided, TrainingSettings
from attnaudit.training.transformers import Architecture, Schedule, TransformerSizes, config_named

OPERATION = "train transformer"


@dataclass(frozen=True)
class TransformerCollect(Settings):
    """Settings of the trace of a trained transformer: the attention of its last layer."""

    name: ClassVar = "collect"
    sample: int | None = setting(
        "Number of test texts to trace, drawn with the seed; default: all.", None, least=1
    )
    scores: tuple[Literal["gradient", "loo"], ...] = setting(
        "Measures of importance.", ("gradient", "loo")
    )
    heatmap: str = setting(HEATMAP_MEANING, HEATMAP)


@dataclass(frozen=True, kw_only=True)
class _Training(Spec):
    """What the specs of all transformer trainings share.

    Attributes:
        corpus: The corpus.
        model: Settings of the model.
        training: Settings of the training loop.
        schedule: Schedule of the learning rate.
        objective: Penalty on the mean attention of the last layer, besides the loss on labels.
        seed: Seed of the split, of new weights and of the training.
        collect: Settings of the trace.
        replacement: Settings of the copies of texts with words replaced.
        experiments: Settings of every experiment by name.
    """

    device: ClassVar[str] = "cpu"
    probe: ClassVar[None] = None
    corpus: CorpusSpec
    model: Any
    training: TrainingSettings
    schedule: Schedule = field(default_factory=Schedule)
    objective: Deceive | Guided | None = None
    seed: int = 0
    collect: TransformerCollect = TransformerCollect()
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    experiments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``<corpus>-<config>-s<seed>``, the default name of the run's folder."""
        own: Any = self
        return f"{corpus_name(self.corpus.source)}-{own.config}-s{self.seed}"


def _resolved(
    source: str | Path,
    corpus: Mapping[str, Any],
    config: str,
    sections: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Apply options and settings to the sections of a model. Raises InputError."""
    refuse_options(corpus, [one.name for one in fields(CorpusSpec)], config)
    given = dict(settings or {})
    refuse_settings(given, BY_OPTION)
    shared = {"corpus": spec_of(CorpusSpec, source, corpus), "replacement": ReplacementSettings()}
    changed = resolve({**shared, **sections}, task_settings(None) | given)
    if changed["training"].class_weight:  # which a softmax ignores
        where, expected = "setting training.class_weight", "false: all texts weigh the same"
        raise InputError(OPERATION, where, "true", expected)
    return changed


@dataclass(frozen=True, kw_only=True)
class TransformerTraining(_Training):
    """One training of a transformer and its audit, with every setting resolved.

    Attributes:
        config: Name of an entry of `CONFIGS`, which has the defaults.
        model: Sizes.
        uniform: Layers that attend uniformly, from the first step on and for good.
    """

    kind: ClassVar[str] = "transformer-training"
    config: str
    model: TransformerSizes
    uniform: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        source: str | Path,
        *,
        config: str = "small-bert",
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        **corpus: Any,
    ) -> TransformerTraining:
        """Make the spec of a training.

        Args:
            source: The corpus.
            config: Name of an entry of `CONFIGS`.
            seed: Seed of the split, the model and the training.
            settings: Settings by dotted name, such as ``{"training.epochs": 4}``.
            **corpus: Other fields of `CorpusSpec`.

        Raises:
            InputError: For an unknown name or setting.
        """
        chosen = config_named(config)
        sections = {name: getattr(chosen, name) for name in ("model", "training", "schedule")}
        sections["collect"] = TransformerCollect()
        changed = _resolved(source, corpus, config, sections, settings)
        return cls(config=config, seed=seed, **changed)

    @property
    def architecture(self) -> Architecture:
        """Class of the transformers library."""
        return config_named(self.config).architecture

    @property
    def causal(self) -> bool:
        """True if the model predicts next tokens."""
        return self.architecture.causal


@dataclass(frozen=True)
class PretrainedModel(Settings):
    """Settings of a pretrained transformer."""

    name: ClassVar = "model"
    length: int = setting(
        "Longest text in tokens, special ones included; longer ones are cut.", 128, least=4
    )


# As usual for such encoders (Devlin et al. 2019).
_TRAINING = TrainingSettings(
    epochs=2, learning_rate=5e-5, weight_decay=0.01, class_weight=False, select="accuracy"
)
_COLLECT = TransformerCollect(sample=USUAL_SAMPLE)


@dataclass(frozen=True, kw_only=True)
class FineTuning(_Training):
    """One training of a pretrained transformer as a classifier, and its audit.

    Attributes:
        folder: Folder of the model.
        weights: sha256 of its weights.
    """

    kind: ClassVar[str] = "fine-tuning"
    causal: ClassVar[bool] = False
    folder: str = ""
    weights: str = ""
    model: PretrainedModel = PretrainedModel()
    training: TrainingSettings = _TRAINING
    collect: TransformerCollect = _COLLECT

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
        sections = {name: getattr(cls, name) for name in ("model", "training", "collect")}
        sections["schedule"] = Schedule()
        changed = _resolved(source, corpus, place.name, sections, settings)
        return cls(folder=str(place), weights=check_to_tune(place), seed=seed, **changed)

    @property
    def config(self) -> str:
        """Name of the folder."""
        return Path(self.folder).resolve().name

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds: of the folder its name, and the sha256 of weights."""
        plain = super().to_json()
        model = {"name": self.config, "weights": plain.pop("weights"), **plain["model"]}
        del plain["folder"]
        return {**plain, "model": model}
