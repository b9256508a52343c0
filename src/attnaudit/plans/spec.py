"""The whole resolved configuration of a run, as JSON, and the differences of two of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from os import fspath
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, Literal

from attnaudit.core import InputError, expanded, read_with_digest
from attnaudit.core.settings import (
    Settings,
    check_numbers,
    coerce,
    from_plain,
    override,
    setting,
)
from attnaudit.corpora.formats.rows import ROLES
from attnaudit.corpora.registry import CORPORA, task_of
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec, Preset
from attnaudit.corpora.spec import spec_of as corpus_spec
from attnaudit.experiments import make_experiment, settings_for_task, with_settings
from attnaudit.models.presets import (
    ERASURE_PRESETS,
    ModelSettings,
    PairSettings,
    check_attention,
    model_preset,
)
from attnaudit.trace import ASKING
from attnaudit.tracing.settings import CollectSettings, PairCollectSettings, ReplacementSettings
from attnaudit.training.probe import Probe
from attnaudit.training.settings import (
    DeceivePairs,
    Objective,
    TrainingSettings,
    training_preset,
)

SCHEMA = 1
BY_OPTION = {
    "corpus.source": "CORPUS",
    "corpus.data_dir": "--data-dir",
    "model.encoder": "--model",
    "model.attention": "--attention",
}
# Where the data lies is not what it is: its fingerprint says that.
_WHEREABOUTS = {"corpus.data_dir", "teacher.trace"}
_OF_A_RUN = ("seed", "study.seed", "fingerprint")  # of one run of several that are alike
PairPreset = Literal["small", "paper"]


@dataclass(frozen=True)
class Teacher:
    """A trace of all splits whose attention a training takes as given (`taught_by`).

    Attributes:
        trace: Path of the trace.
        column: Column that is taken for attention.
    """

    trace: str
    column: str = "alpha"


class Spec:
    """A kind of work with every setting resolved; its ``kind`` names it in ``spec.json``."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the types of numbers. Raises InputError."""
        check_numbers(self)

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds, apart from the fingerprint of the corpus."""
        own: Any = self
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            **json.loads(json.dumps(asdict(own), default=fspath)),
        }


@dataclass(frozen=True)
class RunSpec(Spec):
    """One training of a classifier and its audit.

    Attributes:
        corpus: The corpus, and how it is read.
        model: Sizes of the model.
        training: Settings of the training loop.
        collect: Settings of the trace.
        experiments: Settings of every experiment by name.
        replacement: Settings of the copies of texts with words replaced.
        vectors: ``corpus`` (word2vec trained on the train split), ``random``, or a file.
        preset: Set of published sizes.
        seed: Seed of the split, the model and the training.
        device: ``auto``, ``cpu`` or ``cuda``.
        objective: Loss in place of that on labels.
        teacher: Another model, whose attention is taken as given.
        probe: Instances that are traced while the model trains.
    """

    kind: ClassVar[str] = "run"
    corpus: CorpusSpec
    model: ModelSettings
    training: TrainingSettings
    collect: CollectSettings
    experiments: Mapping[str, Mapping[str, Any]]
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    vectors: str = "corpus"
    preset: Preset = "paper"
    seed: int = 0
    device: str = "auto"
    objective: Objective | None = None
    teacher: Teacher | None = None
    probe: Probe | None = None

    @classmethod
    def of(
        cls,
        source: str | Path,
        *,
        encoder: str = "bilstm",
        attention: str = "additive",
        preset: str = "paper",
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RunSpec:
        """Make the spec of a run with the sizes of a preset.

        What is not given is as a registered corpus says, else as its task does.

        Args:
            source: The corpus.
            encoder: Encoder of the model.
            attention: Its attention.
            preset: Name of the preset.
            settings: Settings by dotted name, such as ``{"training.epochs": 4}``.
            **options: ``vectors``, ``seed`` and ``device``, and other fields of `CorpusSpec`.

        Raises:
            InputError: For an unknown name or setting, or a value of a wrong type.
        """
        given = dict(settings or {})
        refuse_settings(given, BY_OPTION)
        own = {name: options.pop(name) for name in ("seed", "device") if name in options}
        vectors, chosen = options.pop("vectors", None), coerce(preset, Preset, "preset")
        corpus = corpus_spec(CorpusSpec, source, options)
        task = task_of(corpus)
        usual = task_settings(task) | corpus_settings(str(source), encoder, chosen)
        vectors = vectors or usual.pop("vectors", "corpus")
        sections = {
            "corpus": corpus,
            "model": model_preset(encoder, attention, chosen),
            "training": training_preset(chosen),
            "collect": CollectSettings(),
            "replacement": ReplacementSettings(),
        }
        resolved = resolve(sections, usual | given)
        check_attention(resolved["model"], task != "classification")
        return cls(**resolved, vectors=str(expanded(vectors)), preset=chosen, **own)

    @classmethod
    def read(cls, folder: str | Path) -> RunSpec:
        """Read the spec of a run's folder. Raises RunError or InputError."""
        plain = read_with_digest(Path(folder) / "spec.json")
        known = {field.name for field in fields(cls)}
        return from_plain(cls, {key: plain[key] for key in plain.keys() & known}, "spec")

    @property
    def name(self) -> str:
        """``<corpus>-<encoder>-<attention>[-<preset>]-s<seed>``, by default the run's folder."""
        parts = [corpus_name(self.corpus.source), self.model.encoder, self.model.attention]
        parts += [] if self.preset == "paper" else [self.preset]
        return "-".join([*parts, f"s{self.seed}"])


@dataclass(frozen=True)
class Decoding(Settings):
    """Settings of the search for translations."""

    name: ClassVar = "decode"
    beam: int = setting("Beam size; 1: greedy decoding.", 5, least=1)


@dataclass(frozen=True)
class TranslationSpec(Spec):
    """One training of a translator, its translations, and the audit of its attention.

    Attributes:
        corpus: The pairs, and how they are read.
        model: Sizes of the model.
        training: Settings of the training loop.
        collect: Settings of the trace.
        decode: Settings of the search for translations.
        experiments: Settings of every experiment by name.
        replacement: Settings of the copies of sources with words replaced.
        preset: Set of sizes.
        seed: Seed of the split, the model and the training.
        device: ``auto``, ``cpu`` or ``cuda``.
        objective: Loss in place of that on gold tokens.
        probe: Pairs that are traced while the model trains.
    """

    kind: ClassVar[str] = "translation"
    corpus: ParallelSpec
    model: PairSettings
    training: TrainingSettings
    collect: PairCollectSettings
    decode: Decoding
    experiments: Mapping[str, Mapping[str, Any]]
    replacement: ReplacementSettings = field(default_factory=ReplacementSettings)
    preset: PairPreset = "small"
    seed: int = 0
    device: str = "auto"
    objective: DeceivePairs | None = None
    probe: Probe | None = None

    @classmethod
    def of(
        cls,
        source: str | Path,
        *,
        preset: str = "small",
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
        **corpus: Any,
    ) -> TranslationSpec:
        """Make the spec of a run.

        Args:
            source: The corpus.
            preset: ``paper``, the sizes of Snell et al. 2021, or ``small``, a layer each.
            seed: Seed of the split, the model and the training.
            device: ``auto``, ``cpu`` or ``cuda``.
            settings: Settings by dotted name, such as ``{"training.epochs": 4}``.
            **corpus: ``data_dir`` and ``encoding`` of the corpus.

        Raises:
            InputError: For an unknown name or setting, or a value of a wrong type.
        """
        refuse_options(corpus, ("data_dir", "encoding"), "a translator")
        chosen = coerce(preset, PairPreset, "preset")
        model = PairSettings(layers=2, dropout=0.5) if chosen == "paper" else PairSettings()
        training = TrainingSettings(
            epochs=30,
            batch_size=64,
            weight_decay=0.0,
            class_weight=False,
            patience=4,
            plateau=1,
            select="loss",
        )
        sections = {
            "corpus": corpus_spec(ParallelSpec, source, corpus),
            "model": model,
            "training": training,
            "collect": PairCollectSettings(),
            "replacement": ReplacementSettings(),
            "decode": Decoding(),
        }
        resolved = resolve(sections, task_settings(None) | dict(settings or {}))
        return cls(**resolved, preset=chosen, seed=seed, device=device)

    @property
    def name(self) -> str:
        """``<corpus>-<attention>-s<seed>``, the default name of the run's folder."""
        return f"{Path(self.corpus.source).name}-{self.model.attention}-s{self.seed}"


def refuse_options(options: Mapping[str, Any], known: Collection[str], of: str) -> None:
    """Raise InputError for the first of ``options`` that is not ``known``.

    Args:
        options: Options by name.
        known: Names of those that ``of`` has.
        of: What they are for, in the error.
    """
    for name, value in options.items():
        if name not in known:
            where = f"--{'model' if name == 'encoder' else name}"
            do = "its settings are given by --set (--help-settings)"
            raise InputError("read settings", where, str(value), f"an option of {of}", do)


def refuse_settings(settings: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Raise InputError for a setting that is given by one of ``options``, named by settings."""
    for key in options.keys() & settings.keys():
        expected = f"the argument or option {options[key]}"
        raise InputError("read settings", f"setting {key}", "decided elsewhere", expected)


def take_section(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """Remove the settings of a section, and return them."""
    return {key: settings.pop(key) for key in list(settings) if key.partition(".")[0] == name}


def corpus_name(source: str) -> str:
    """Name a corpus for a folder: a file by its stem, or by its folder if that says nothing."""
    path = Path(source)
    base = path.name.split(".")[0] or "corpus"
    return path.parent.name if base in ("all", "data") and path.parent.name else base


def demo_spec() -> RunSpec:
    """Return the run of ``attnaudit demo``: one decisive word among distractors, a small model."""
    return RunSpec.of("planted-decisive", settings={"corpus.size": 2000, "corpus.length": (10, 40)})


def task_settings(task: str | None) -> dict[str, Any]:
    """Return the settings of a task that differ from those of classification (Jain & Wallace)."""
    fixed = {"training.epochs": 25, "model.attention_decay": True}
    fixed |= {"collect.gradient_of": "predicted"}
    return (fixed if task in ASKING else {}) | _flat(settings_for_task(task))


def corpus_settings(source: str, encoder: str, preset: str) -> dict[str, Any]:
    """Return the dotted settings of a registered corpus, perhaps with its ``vectors``."""
    return dict(CORPORA[source].settings(encoder, preset)) if source in CORPORA else {}


def resolve(sections: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Apply dotted settings to sections and to all experiments. Raises InputError.

    Returns:
        The sections, and ``experiments``, the settings of each as a dictionary.
    """
    known = {name: make_experiment(name) for name in with_settings()}
    changed = override({**sections, **known}, settings)
    experiments = {name: asdict(changed.pop(name)) for name in known}
    return {**changed, "experiments": experiments}


def experiment_settings(settings: Mapping[str, Any], task: str | None) -> dict[str, dict[str, Any]]:
    """Return the resolved settings of every experiment for a task. Raises InputError."""
    return resolve({}, _flat(settings_for_task(task)) | dict(settings))["experiments"]


def differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], free: Collection[str] = ()
) -> list[str]:
    """List ``key = ours, there theirs`` for every dotted key of two specs.

    Whereabouts are not compared, nor the keys that are ``free``.
    """
    left, right = _flat(ours), _flat(theirs)
    return [
        f"{key} = {_shown(left, key)}, there {_shown(right, key)}"
        for key in dict.fromkeys([*left, *right])
        if key not in (*_WHEREABOUTS, *free) and left.get(key) != right.get(key)
    ]


def other_settings(made: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a ``spec.json`` that are not the usual ones, by dotted name.

    Whereabouts, seeds and the fingerprint of the data are left out.
    """
    right = _flat(usual)
    return {
        key: value
        for key, value in _flat(made).items()
        if key not in (*_WHEREABOUTS, *_OF_A_RUN) and value != right.get(key)
    }


def options_of(made: Mapping[str, Any]) -> list[str]:
    """Return the corpus and the options of a command that make the spec of a run, quoted.

    Args:
        made: What ``spec.json`` of a `RunSpec` holds; parts of it may be missing.

    Raises:
        InputError: For a name or a value that is unknown here.
    """
    corpus, encoder, preset = made["corpus"], made["model"]["encoder"], made.get("preset", "paper")
    own = {} if preset in ERASURE_PRESETS else {"encoder": encoder}
    usual = RunSpec.of(corpus["source"], preset=preset, **own).to_json()
    flat = {
        key.removeprefix("experiments."): value
        for key, value in other_settings(made, usual).items()
        if key in _flat(usual)
    }
    flat.pop("model.encoder", None)
    named = [(f"--column {role}=", flat.pop(f"corpus.{role}", None)) for role in ROLES]
    named += [
        ("--model ", preset if preset in ERASURE_PRESETS else encoder),
        ("--attention ", flat.pop("model.attention", None)),
        ("--preset ", None if preset in ("paper", *ERASURE_PRESETS) else preset),
        *((f"--{name} ", flat.pop(name, None)) for name in ("vectors", "device")),
        ("--seed ", made.get("seed")),
        ("--data-dir ", corpus.get("data_dir")),
    ]
    values = {key: value if isinstance(value, list) else [value] for key, value in flat.items()}
    named += [(f"--set {key}=", ",".join(map(_typed, value))) for key, value in values.items()]
    options = [f"{option}{quote(str(value))}" for option, value in named if value]
    return [quote(str(corpus["source"])), *options]


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, entry in value.items():
        nested = isinstance(entry, Mapping)
        flat |= _flat(entry, f"{prefix}{key}.") if nested else {f"{prefix}{key}": entry}
    return flat


def _shown(flat: Mapping[str, Any], key: str) -> str:
    return json.dumps(flat[key], ensure_ascii=False) if key in flat else "not set"
