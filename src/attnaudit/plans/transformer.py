"""The whole resolved configuration of a transformer training, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from attnaudit.core.errors import InputError
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
from attnaudit.training.settings import Deceive, TrainingSettings
from attnaudit.training.transformers import Architecture, Schedule, TransformerSizes, config_named

ALL = "all"
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


@dataclass(frozen=True)
class Uniform:
    """Layers whose heads attend uniformly to all tokens, in training and in the saved model."""

    layers: str = setting("Layers that attend uniformly: all, last, or numbers, as 0,3.", "none")


def uniform_layers(text: str, layers: int) -> tuple[int, ...]:
    """Return the numbers of layers.

    Args:
        text: ``all``, ``last``, ``none``, or numbers from 0 joined by commas.
        layers: Number of layers of the model.

    Raises:
        InputError: For a layer that it does not have.
    """
    words = {ALL: range(layers), "last": [layers - 1], "none": []}
    names = words.get(text, [name.strip() for name in text.split(",")])
    for name in map(str, names):
        if not name.isdecimal() or int(name) >= layers:
            expected = f"{ALL}, last, or layers from 0 to {layers - 1} joined by commas"
            raise InputError("read settings", "setting uniform.layers", repr(name), expected)
    return tuple(sorted({int(name) for name in names}))


def refuse_class_weight(training: TrainingSettings) -> None:
    """Raise InputError for weights of classes, which a softmax ignores."""
    if training.class_weight:
        where, expected = "setting training.class_weight", "false: all texts weigh the same"
        raise InputError(OPERATION, where, "true", expected)


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
        objective: Penalty on attention to impermissible tokens, besides the loss on labels.
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
    objective: Deceive | None = None
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
            settings: Settings by dotted name, such as ``{"training.epochs": 4}``. With
                ``deceive.strength``, the weight λ of the penalty on attention, the epoch of least
                loss on dev is kept, penalty included.
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
            "uniform": Uniform(),
            "deceive": Deceive(0.0),
        }
        deceives = "deceive.strength" in given
        if deceives:
            # The score of labels would select the first epoch that is right, whatever its
            # attention.
            sections["training"] = replace(chosen.training, select="loss")
        changed = resolve(sections, task_settings(None) | given)
        penalty, uniform = changed.pop("deceive"), changed.pop("uniform").layers
        spec = cls(
            config=config,
            **changed,
            uniform=uniform_layers(uniform, changed["model"].layers),
            objective=penalty if deceives else None,
            seed=seed,
        )
        spec.check()
        return spec

    @property
    def architecture(self) -> Architecture:
        """Class of the transformers library."""
        return config_named(self.config).architecture

    @property
    def causal(self) -> bool:
        """True if the model predicts next tokens."""
        return self.architecture.causal

    def check(self) -> None:
        """Check that the settings go together. Raises InputError."""
        refuse_class_weight(self.training)
        if self.objective is None:
            return
        if self.causal:
            where = f"setting deceive.strength with {self.config}"
            raise InputError(OPERATION, where, "a model of next tokens", "a classifier")
        if self.model.layers - 1 in self.uniform:
            got, expected = "a last layer that attends uniformly", "one that learns its attention"
            do = "leave it out of uniform.layers"
            raise InputError(OPERATION, "setting deceive.strength", got, expected, do)

    @property
    def name(self) -> str:
        """``<corpus>-<config>-s<seed>``, with what was changed of its attention."""
        layers = "" if len(self.uniform) == self.model.layers else "-".join(map(str, self.uniform))
        uniform = f"-uniform{layers}" if self.uniform else ""
        deceive = f"-deceive{self.objective.strength:g}" if self.objective else ""
        return f"{corpus_name(self.corpus.source)}-{self.config}{uniform}{deceive}-s{self.seed}"
