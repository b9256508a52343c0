"""What a translation run is: its whole resolved configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import coerce, override
from attnaudit.corpora.spec import ParallelSpec
from attnaudit.plans.spec import SCHEMA, experiment_settings, unwatched

if TYPE_CHECKING:
    from attnaudit.models.presets import PairSettings
    from attnaudit.trace.probe import Probe
    from attnaudit.tracing.settings import PairCollectSettings
    from attnaudit.training.settings import DeceivePairs, TrainingSettings

PairPreset = Literal["small", "paper"]
_LEARNING_RATE = 1e-3
_MADE = ("size", "length", "symbols")  # settings of planted corpora, in spec.json only where they are set


@dataclass(frozen=True)
class Decoding:
    """``beam`` targets are kept at each step; 1 is the greedy choice."""

    beam: int = 5

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise InputError("read settings", "setting decode.beam", str(self.beam), "1 or more")


@dataclass(frozen=True)
class TranslationSpec:
    """One training of a translator, its translations and the audit of its attention, with every setting resolved.

    In a study an ``objective`` may replace the loss on gold tokens, and a ``probe`` be traced during training.
    """

    kind: ClassVar[str] = "translation"
    corpus: ParallelSpec
    model: PairSettings
    training: TrainingSettings
    collect: PairCollectSettings
    decode: Decoding
    experiments: Mapping[str, Mapping[str, Any]]
    preset: PairPreset = "small"
    seed: int = 0
    device: str = "auto"
    objective: DeceivePairs | None = None
    probe: Probe | None = None

    @classmethod
    def of(
        cls, source: str | Path, *, preset: str = "small", seed: int = 0, device: str = "auto", data_dir: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> TranslationSpec:  # fmt: skip
        """A run of ``source``; ``settings`` are dotted names, as ``{"training.epochs": 4}``. Raises InputError."""
        chosen: PairPreset = coerce(preset, PairPreset, "preset")
        sections = {"corpus": ParallelSpec(str(source), data_dir), **_sizes(chosen), "decode": Decoding()}
        given = dict(settings or {})
        own = {key: value for key, value in given.items() if key.partition(".")[0] in sections}
        changed = override(sections, own)
        experiments = experiment_settings({key: value for key, value in given.items() if key not in own})
        return cls(**changed, experiments=experiments, preset=chosen, seed=seed, device=device)

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus.

        A corpus whose making is not set does not say so: it is the same as before there was a choice.
        """
        plain = json.loads(json.dumps(asdict(self)))
        for name in _MADE:
            if plain["corpus"][name] is None:
                del plain["corpus"][name]
        return {"schema": SCHEMA, "kind": self.kind, **unwatched(plain)}

    @property
    def name(self) -> str:
        """``<corpus>-<attention>-s<seed>``, the default name of the run directory."""
        return f"{Path(self.corpus.source).name}-{self.model.attention}-s{self.seed}"


def _sizes(preset: PairPreset) -> dict[str, Any]:
    """``paper``: as Snell et al. 2020 say; ``small``: one layer each, which two cores train in a quarter of an hour or two."""
    from attnaudit.models.presets import PairSettings
    from attnaudit.tracing.settings import PairCollectSettings
    from attnaudit.training.settings import TrainingSettings

    model = PairSettings(layers=2, dropout=0.5) if preset == "paper" else PairSettings()
    training = TrainingSettings(
        epochs=30, batch_size=64, learning_rate=_LEARNING_RATE, weight_decay=0.0, class_weight=False, patience=4, plateau=1, select="loss"
    )
    return {"model": model, "training": training, "collect": PairCollectSettings()}
