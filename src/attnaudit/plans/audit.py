"""The audit of a transformer that was saved on disk, and the experiments of any audit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from attnaudit.core import InputError, expanded
from attnaudit.core.settings import Settings, coerce, override, setting
from attnaudit.corpora.read import Draw
from attnaudit.experiments import make_experiment
from attnaudit.plans.spec import Spec, corpus_name, experiment_settings, take_section
from attnaudit.tracing.settings import HEATMAP, HEATMAP_MEANING, ReplacementSettings

USUAL_SAMPLE, REPLAYED_SAMPLE = 500, 50


@dataclass(frozen=True)
class Battery:
    """Experiments of an audit, with their settings.

    Attributes:
        settings: Settings of each experiment, by its name.
        chosen: Whether they were asked for by name, and so must be able to run.
    """

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    chosen: bool = False


def choose(
    experiments: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    task: str | None = None,
) -> Battery:
    """Choose the experiments named, or all.

    Args:
        experiments: Names; none for all.
        settings: Settings by dotted name.
        task: Task whose defaults hold.

    Raises:
        InputError: For an unknown experiment or setting.
    """
    names = list(dict.fromkeys(make_experiment(name).name for name in experiments))
    given = settings or {}
    resolved = experiment_settings(given, task)
    for key in given:
        if names and key.partition(".")[0] not in names:
            expected = f"a setting of {', '.join(names)}"
            raise InputError("audit", f"setting {key}", "not of an experiment asked for", expected)
    chosen = names or list(resolved)
    return Battery({name: resolved.get(name, {}) for name in chosen}, chosen=bool(names))


@dataclass(frozen=True)
class TransformerCollect(Settings):
    """Choice of the attention that is collected from a transformer, and of the texts."""

    name: ClassVar = "collect"
    layers: str = setting("Layers: last, all, or numbers from 0, for example 0,3.", "last")
    heads: str = setting("Heads: all, or numbers from 0, for example 0,3.", "all")
    sample: int | None = setting(
        "Texts of the split that are audited, drawn by the seed; default: 500, or 50 of several "
        "layers, or at all positions.",
        None,
        least=1,
    )
    split: str | None = setting(
        "Split that is audited; default: all of a single file, of a folder or a registered corpus "
        "test, where there is one.",
        None,
    )
    max_tokens: int | None = setting(
        "Cut texts to this many tokens; default: as many as the model reads.", None, least=1
    )
    scores: tuple[str, ...] | None = setting(
        "Measures of importance, or all; default: those that cost little more than leave-one-out.",
        None,
    )
    heatmap: str = setting(HEATMAP_MEANING, HEATMAP)
    positions: Literal["one", "all", "last", "answer"] | None = setting(
        "Positions of a text whose label or next token is predicted, or answer: the prediction "
        "is of a whole target or answer; default: one of a target or of labelled words, drawn by "
        "the seed, the answer to a prompt, else its last.",
        None,
    )
    classes: tuple[str, ...] | None = setting(
        "Names of a classifier's outputs, in their order, by which labels are matched; default: "
        "the model's own, else the corpus's.",
        None,
    )
    segments: str | None = setting(
        "Positions in place of tokens: sentences, lines, or a regular expression for what "
        "separates segments; --column segments=NAME names a column that has them.",
        None,
    )
    output: str | None = setting(
        "Output that is audited: of a classifier with several labels for a text, each with a "
        "probability of its own; start or end of an extracted answer; default: none, the outputs "
        "are classes.",
        None,
    )
    generate: int | None = setting(
        "Most tokens of an answer that the model writes itself, whose prediction is audited.",
        None,
        least=1,
    )
    cross: bool = setting(
        "Cross-attention of an encoder-decoder, in place of its decoder's self-attention.", False
    )
    batch: int = setting("Padded tokens of a batch.", 4096, least=1)

    def numbers(self, name: str) -> str | tuple[int, ...]:
        """Return ``layers`` or ``heads`` as a word or as numbers. Raises InputError."""
        value: str = getattr(self, name)
        if value in ("all", "last"):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError as error:
            words = "last, all" if name == "layers" else "all"
            expected = f"{words} or numbers, as 0,3"
            raise InputError("read settings", f"collect.{name}", value, expected) from error


@dataclass(frozen=True)
class Limits(Settings):
    """Limits of an audit."""

    name: ClassVar = "audit"
    budget: str | None = setting(
        "Most CPU time of an audit that runs layers again, as 90s, 5m or 2h. Texts and heads that "
        "do not fit are left out before it starts; none: no limit.",
        "5m",
    )

    def __post_init__(self) -> None:
        """Refuse a budget that is no time. Raises InputError."""
        if self.budget is not None and not self.seconds:
            expected = "a time, as 90s, 5m or 2h, or none"
            raise InputError("read settings", "setting audit.budget", self.budget, expected)

    @property
    def seconds(self) -> float:
        """The budget in seconds; 0 for what is no time."""
        parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", self.budget or "")
        return float(parts[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[parts[2]] if parts else 0.0


@dataclass(frozen=True)
class TransformerSpec(Spec):
    """The audit of a model folder on a corpus.

    Attributes:
        model: Folder of the model.
        source: The corpus.
        collect: Which attention of which texts.
        battery: The experiments.
        replacement: Settings of the copies of texts with words replaced.
        audit: Limits of the audit.
        seed: Seed of the sample.
        corpus: Options of the corpus reader.
    """

    kind: ClassVar[str] = "transformer"
    device: ClassVar[str] = "cpu"
    model: Path
    source: str
    collect: TransformerCollect = TransformerCollect()
    battery: Battery = Battery()
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    audit: Limits = Limits()
    seed: int = 0
    corpus: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: str | Path,
        source: str,
        *,
        experiments: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        **corpus: Any,
    ) -> TransformerSpec:
        """Make a spec.

        Args:
            model: Folder of the model.
            source: The corpus.
            experiments: Names of the only experiments; none for all.
            settings: Settings of ``corpus``, ``collect``, ``replacement``, ``audit`` and
                experiments, by dotted name.
            seed: Seed of the sample.
            **corpus: Options of the corpus reader.

        Raises:
            InputError: For an unknown setting or value.
        """
        given = dict(settings or {})
        read = take_section(given, "corpus")
        read = {key.removeprefix("corpus."): value for key, value in read.items()}
        sections = {"collect": TransformerCollect(), "replacement": ReplacementSettings()}
        sections["audit"] = Limits()
        own = {key: value for name in sections for key, value in take_section(given, name).items()}
        chosen = override(sections, own)
        battery = choose(experiments, given)
        return cls(
            expanded(model),
            str(source),
            battery=battery,
            seed=seed,
            corpus={**read, **corpus},
            **chosen,
        )

    @property
    def name(self) -> str:
        """``<corpus>-<model>``, the default name of the run's folder."""
        return f"{corpus_name(self.source)}-{self.model.resolve().name}"

    @property
    def draw(self) -> Draw:
        """The texts that are audited. Raises InputError for layers that are no numbers."""
        layers = self.collect.numbers("layers")
        one_layer = layers == "last" or (isinstance(layers, tuple) and len(set(layers)) == 1)
        is_small = one_layer and self.collect.positions != "all"
        usual = USUAL_SAMPLE if is_small else REPLAYED_SAMPLE
        return Draw(self.collect.sample or usual, self.seed)

    @property
    def seed_of_corpus(self) -> int:
        """Seed of a split or of generated texts: ``corpus.seed``, by default the run's."""
        given = coerce(self.corpus.get("seed"), int | None, "corpus.seed")
        return self.seed if given is None else given

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds, apart from the fingerprint."""
        plain = super().to_json()
        source, battery = plain.pop("source"), plain.pop("battery")
        plain["corpus"].pop("data_dir", None)
        del plain["collect"]["batch"]
        return {
            **plain,
            "corpus": {**plain["corpus"], "source": source},
            "experiments": battery["settings"],
            "chosen": battery["chosen"],
            "model": {"name": self.model.resolve().name},
        }
