"""The whole resolved configuration of a transformer training, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from attnaudit.core import InputError
from attnaudit.core.settings import Settings, setting
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.corpora.spec import spec_of as corpus_spec
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


def refuse_class_weight(training: TrainingSettings) -> None:
    """Raise InputError for weights of classes, which a softmax ignores."""
    if training.class_weight:
        expected = "false: all texts weigh the same"
        raise InputError(OPERATION, "setting training.class_weight", "true", expected)


@dataclass(frozen=True)
class TransformerTraining(Spec):
    """One training of a transformer and its audit, with every setting resolved.

    Attributes:
        corpus: The corpus.
        config: Name of an entry of `CONFIGS`, which has the defaults.
        model: Sizes.
        training: Settings of the training loop.
        schedule: Schedule of the learning rate.
        uniform: Layers that attend uniformly, from the first step on and for good.
        objective: Penalty on the mean attention of the last layer, besides the loss on labels.
        seed: Seed of the split, the model and the training.
        collect: Settings of the trace.
        replacement: Settings of the copies of texts with words replaced.
        experiments: Settings of every experiment by name.
    """

    kind: ClassVar[str] = "transformer-training"
    device: ClassVar[str] = "cpu"
    probe: ClassVar[None] = None
    corpus: CorpusSpec
    config: str
    model: TransformerSizes
    training: TrainingSettings
    schedule: Schedule
    uniform: tuple[int, ...] = ()
    objective: Deceive | Guided | None = None
    seed: int = 0
    collect: TransformerCollect = TransformerCollect()
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    experiments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

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
        refuse_options(corpus, [one.name for one in fields(CorpusSpec)], config)
        given = dict(settings or {})
        refuse_settings(given, BY_OPTION)
        chosen = config_named(config)
        sections: dict[str, Any] = {
            "corpus": corpus_spec(CorpusSpec, source, corpus),
            "model": chosen.model,
            "training": chosen.training,
            "schedule": chosen.schedule,
            "collect": TransformerCollect(),
            "replacement": ReplacementSettings(),
        }
        resolved = resolve(sections, task_settings(None) | given)
        spec = cls(config=config, **resolved, seed=seed)
        refuse_class_weight(spec.training)
        return spec

    @property
    def architecture(self) -> Architecture:
        """Class of the transformers library."""
        return config_named(self.config).architecture

    @property
    def causal(self) -> bool:
        """True if the model predicts next tokens."""
        return self.architecture.causal

    @property
    def name(self) -> str:
        """``<corpus>-<config>-s<seed>``."""
        return f"{corpus_name(self.corpus.source)}-{self.config}-s{self.seed}"
