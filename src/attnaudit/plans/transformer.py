"""What a training of a transformer is, by itself or in a study: its whole resolved configuration, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import check_settings, from_plain, override, setting
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.spec import SCHEMA, called
from attnaudit.training.settings import Deceive, TrainingSettings
from attnaudit.training.transformers import Architecture, Schedule, TransformerSizes, config_named

ALL = "all"
OF_WORDS = (
    "max_tokens",
    "digits",
    "lowercase",
    "tokenizer",
)  # options of words, which a model with a tokenizer of its own has no use for
BY_OPTION = {
    "corpus.source": "CORPUS",
    "corpus.data_dir": "--data-dir",
    "deceive.strength": "--deceive",
}


@dataclass(frozen=True)
class TransformerCollect:
    """What a study records of a transformer that it trained: the attention of the last layer."""

    sample: int | None = setting(
        "Number of test texts to trace, drawn with the seed; default: all.", None, least=1
    )
    scores: tuple[Literal["gradient", "loo"], ...] = setting(
        "Measures of importance, where a study needs them.", ("gradient", "loo")
    )

    def __post_init__(self) -> None:
        check_settings(self, "collect")


@dataclass(frozen=True)
class TransformerTraining:
    """One training of a transformer, with every setting resolved; `TransformerTraining.of` fills in those of its ``config``.

    The layers ``uniform`` attend uniformly, from the first step on and for good. With ``objective`` the loss on labels has a penalty on
    attention to impermissible tokens. In a study ``collect`` says what is traced of the model.
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
    collect: TransformerCollect | None = None

    @classmethod
    def of(
        cls, source: str | Path, *, config: str = "small-bert", seed: int = 0, deceive: float | None = None,
        uniform: str | tuple[int, ...] = (), settings: Mapping[str, Any] | None = None, collect: TransformerCollect | None = None,
        **corpus: Any,
    ) -> TransformerTraining:  # fmt: skip
        """A training on ``source`` of a ``config`` of `CONFIGS`; ``settings`` are dotted names, as ``{"training.epochs": 4}``.

        ``uniform`` names layers, as ``(0, 1)`` or ``"0,1"``, or ``"all"``. ``deceive`` is the weight λ of the penalty; it adds the settings
        ``deceive.heads`` and ``deceive.words``, and the epoch of least loss on dev is kept, penalty included. ``corpus`` takes the other
        fields of `CorpusSpec`; with ``collect`` its settings are known too, as ``collect.sample``. Raises InputError.
        """
        for key in BY_OPTION.keys() & (settings or {}).keys():
            raise InputError(
                "read settings",
                f"setting {key}",
                "decided elsewhere",
                f"the argument or option {BY_OPTION[key]}",
            )
        chosen = config_named(config)
        sections: dict[str, Any] = {
            "corpus": from_plain(CorpusSpec, {"source": str(source), **corpus}, "corpus"),
            "model": chosen.model, "training": chosen.training, "schedule": chosen.schedule,
        }  # fmt: skip
        if (
            deceive is not None
        ):  # the score of labels would select the first epoch that is right, whatever its attention
            sections |= {
                "deceive": Deceive(deceive),
                "training": replace(chosen.training, select="loss"),
            }
        if collect is not None:
            sections["collect"] = collect
        changed = override(sections, dict(settings or {}))
        objective = changed.pop("deceive", None)
        layers = _layers(uniform, changed["model"].layers)
        spec = cls(config=config, **changed, uniform=layers, objective=objective, seed=seed)
        spec.check()
        return spec

    @property
    def architecture(self) -> Architecture:
        return config_named(self.config).architecture

    def check(self) -> None:
        """Raise InputError for settings that do not go together."""
        if self.training.class_weight:
            raise InputError(
                "train transformer",
                "setting training.class_weight",
                "true",
                "false: all texts weigh the same",
            )
        if self.objective is None:
            return
        if self.architecture.causal:
            raise InputError(
                "train transformer",
                f"--deceive with {self.config}",
                "a model of next tokens",
                "a classifier",
            )
        if self.model.layers - 1 in self.uniform:
            got = "a last layer that attends uniformly"
            raise InputError(
                "train transformer",
                "--deceive",
                got,
                "one that learns its attention",
                "leave it out of --frozen-uniform",
            )

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus; of a training by itself nothing is collected."""
        plain = json.loads(json.dumps({**asdict(self), "corpus": self.corpus.to_plain()}))
        if self.collect is None:
            del plain["collect"]
        return {"schema": SCHEMA, "kind": self.kind, **plain}

    @property
    def name(self) -> str:
        """``<corpus>-<config>-s<seed>``, with what was changed of its attention: the default name of the folder."""
        uniform = (
            f"-uniform{'' if len(self.uniform) == self.model.layers else '-'.join(map(str, self.uniform))}"
            if self.uniform
            else ""
        )
        deceive = f"-deceive{self.objective.strength:g}" if self.objective else ""
        return f"{called(self.corpus.source)}-{self.config}{uniform}{deceive}-s{self.seed}"


def _layers(uniform: str | tuple[int, ...], number: int) -> tuple[int, ...]:
    """The layers that are named, in order. Raises InputError."""
    if uniform == ALL:
        return tuple(range(number))
    named = uniform.split(",") if isinstance(uniform, str) else map(str, uniform)
    layers = [name.strip() for name in named]
    if wrong := [name for name in layers if not name.isdecimal() or int(name) >= number]:
        raise InputError(
            "read settings",
            "--frozen-uniform",
            repr(wrong[0]),
            f"{ALL}, or layers from 0 to {number - 1} joined by commas",
        )
    return tuple(sorted({int(name) for name in layers}))
