"""What a run is, of a classifier or a translator: its whole resolved configuration, as JSON, and in what two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attnaudit.core.errors import InputError
from attnaudit.core.files import read_with_digest
from attnaudit.core.settings import coerce, from_plain, override, setting
from attnaudit.corpora.registry import CORPORA, task_of
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec, Preset
from attnaudit.models.presets import ModelSettings, check_attention, model_preset

if TYPE_CHECKING:
    from attnaudit.models.presets import PairSettings
    from attnaudit.tracing.settings import CollectSettings, PairCollectSettings
    from attnaudit.training.probe import Probe
    from attnaudit.training.settings import DeceivePairs, Objective, TrainingSettings

SCHEMA = 1
BY_OPTION = {
    "corpus.source": "CORPUS",
    "corpus.data_dir": "--data-dir",
    "model.encoder": "--model",
    "model.attention": "--attention",
}
_WHEREABOUTS = {
    "corpus.data_dir",
    "teacher.trace",
}  # where the data lies is not what it is: the corpus fingerprint guards that
_OF_A_RUN = ("seed", "study.seed", "fingerprint")  # of one run of several that are alike
_MADE = (
    "size",
    "length",
    "symbols",
    "encoding",
)  # settings of parallel corpora that are in spec.json only where they are set
PairPreset = Literal["small", "paper"]


@dataclass(frozen=True)
class Teacher:
    """A trace of all splits that says what another model does; ``column`` is what of it is taken for attention (`taught_by`)."""

    trace: str
    column: str = "alpha"


@dataclass(frozen=True)
class RunSpec:
    """One training and its audit, with every setting resolved; `RunSpec.of` fills in the defaults, those of the corpus included.

    ``vectors`` is ``corpus`` (word2vec trained on the train split), ``random`` or a file of word vectors; ``experiments`` holds
    the settings of every experiment by name; ``device`` is ``auto``, ``cpu`` or ``cuda``. In a study ``objective`` may replace the loss
    on labels, a ``teacher`` provide the outputs of another model, and a ``probe`` be traced while the model trains.
    """

    kind: ClassVar[str] = "run"
    corpus: CorpusSpec
    model: ModelSettings
    training: TrainingSettings
    collect: CollectSettings
    experiments: Mapping[str, Mapping[str, Any]]
    vectors: str = "corpus"
    preset: Preset = "paper"
    seed: int = 0
    device: str = "auto"
    objective: Objective | None = None
    teacher: Teacher | None = None
    probe: Probe | None = None

    @classmethod
    def of(
        cls, source: str | Path, *, encoder: str = "bilstm", attention: str = "additive", preset: str = "paper",
        vectors: str | None = None, seed: int = 0, device: str = "auto", settings: Mapping[str, Any] | None = None, **corpus: Any,
    ) -> RunSpec:  # fmt: skip
        """A run of ``source`` with the preset's sizes; ``settings`` are dotted names, as ``{"training.epochs": 4}``.

        Where they, or ``vectors``, say nothing, a registered corpus's own settings hold, else those of its task. ``corpus`` takes the other
        fields of `CorpusSpec`. Raises InputError for an unknown name, setting, or a value of a wrong type.
        """
        from attnaudit.tracing.settings import CollectSettings
        from attnaudit.training.settings import training_preset

        for key in BY_OPTION.keys() & (settings or {}).keys():
            raise InputError(
                "read settings",
                f"setting {key}",
                "decided elsewhere",
                f"the argument or option {BY_OPTION[key]}",
            )
        chosen: Preset = coerce(preset, Preset, "preset")
        sections: dict[str, Any] = {
            "corpus": from_plain(CorpusSpec, {"source": str(source), **corpus}, "corpus"),
            "model": model_preset(encoder, attention, chosen),
            "training": training_preset(chosen),
            "collect": CollectSettings(),
            **_all_experiments(),
        }
        task = task_of(sections["corpus"])
        defaults = task_settings(task) | corpus_settings(str(source), encoder, chosen)
        usual_vectors = defaults.pop("vectors", "corpus")
        changed = override(sections, defaults | dict(settings or {}))
        if changed["collect"].level == "words" and not changed["model"].hierarchical:
            raise InputError(
                "read settings",
                "setting collect.level",
                "words",
                "positions: a flat model has no sentences",
                "or --preset han",
            )
        if changed["collect"].level == "words" and changed["collect"].erase_input:
            raise InputError(
                "read settings",
                "setting collect.erase_input",
                "true with collect.level=words",
                "positions: sentences are deleted",
            )
        check_attention(changed["model"], task != "classification")
        experiments = {name: asdict(changed[name]) for name in _all_experiments()}
        read_from = str(Path(vectors or usual_vectors).expanduser())
        return cls(
            changed["corpus"],
            changed["model"],
            changed["training"],
            changed["collect"],
            experiments,
            read_from,
            chosen,
            seed,
            device,
        )

    @classmethod
    def read(cls, folder: str | Path) -> RunSpec:
        """The spec of an existing run directory. Raises RunError or InputError when it is missing or damaged."""
        from attnaudit.tracing.settings import CollectSettings
        from attnaudit.training.probe import Probe
        from attnaudit.training.settings import OBJECTIVES, TrainingSettings

        path = Path(folder) / "spec.json"
        plain = read_with_digest(path)
        if (
            not isinstance(plain, dict)
            or plain.get("kind") != cls.kind
            or plain.get("schema") != SCHEMA
        ):
            raise InputError(
                "read run", str(path), "no spec of a run", f"kind 'run', schema {SCHEMA}"
            )
        return cls(
            CorpusSpec.from_plain(plain["corpus"]),
            from_plain(ModelSettings, plain["model"], "model"),
            from_plain(TrainingSettings, plain["training"], "training"),
            from_plain(CollectSettings, plain["collect"], "collect"),
            plain["experiments"], plain["vectors"], coerce(plain["preset"], Preset, "preset"), plain["seed"], plain["device"],
            from_plain(OBJECTIVES[objective["kind"]], objective, "objective") if (objective := plain.get("objective")) else None,
            from_plain(Teacher, teacher, "teacher") if (teacher := plain.get("teacher")) else None,
            from_plain(Probe, probe, "probe") if (probe := plain.get("probe")) else None,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus."""
        plain = json.loads(json.dumps({**asdict(self), "corpus": self.corpus.to_plain()}))
        return {"schema": SCHEMA, "kind": self.kind, **unwatched(plain)}

    @property
    def name(self) -> str:
        """``<corpus>-<encoder>-<attention>-s<seed>``, the default name of the run directory."""
        return (
            f"{called(self.corpus.source)}-{self.model.encoder}-{self.model.attention}-s{self.seed}"
        )


def called(source: str) -> str:
    """The name of a corpus in the default name of a folder: a file by its stem, or by its folder where that says nothing."""
    base, parent = Path(source).name.split(".")[0] or "corpus", Path(source).parent.name
    return parent if base in ("all", "data") and parent else base


@dataclass(frozen=True)
class Decoding:
    """How translations are searched for."""

    beam: int = setting("Beam size; 1: greedy decoding.", 5)

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
        encoding: str | None = None, settings: Mapping[str, Any] | None = None,
    ) -> TranslationSpec:  # fmt: skip
        """A run of ``source``; ``settings`` are dotted names, as ``{"training.epochs": 4}``. Raises InputError."""
        chosen: PairPreset = coerce(preset, PairPreset, "preset")
        sections = {
            "corpus": ParallelSpec(str(source), data_dir, encoding=encoding),
            **_sizes(chosen),
            "decode": Decoding(),
        }
        known = _all_experiments()
        changed = override({**sections, **known}, task_settings(None) | dict(settings or {}))
        experiments = {name: asdict(changed.pop(name)) for name in known}
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
        epochs=30,
        batch_size=64,
        learning_rate=1e-3,
        weight_decay=0.0,
        class_weight=False,
        patience=4,
        plateau=1,
        select="loss",
    )
    return {"model": model, "training": training, "collect": PairCollectSettings()}


def unwatched(plain: dict[str, Any]) -> dict[str, Any]:
    """A training that is not watched, that counts epochs or has one thread does not say so: it is the same as before there was a choice."""
    for section, name, usual in (
        (plain, "probe", None),
        (plain["training"], "steps", None),
        (plain["training"], "threads", 1),
    ):
        if section[name] == usual:
            del section[name]
    return plain


def demo_spec() -> RunSpec:
    """The run of ``attnaudit demo``: one decisive word among distractors, a model small enough for a laptop."""
    return RunSpec.of("planted-decisive", settings={"corpus.size": 2000, "corpus.length": (10, 40)})


def task_settings(task: str | None) -> dict[str, Any]:
    """What Jain & Wallace 2019 chose for question answering and inference where it differs from classification, as dotted settings."""
    from attnaudit.experiments import settings_for_task
    from attnaudit.trace import ASKING

    fixed = (
        {"training.epochs": 25, "model.attention_decay": True, "collect.gradient_of": "predicted"}
        if task in ASKING
        else {}
    )
    return fixed | {
        f"{name}.{key}": value
        for name, values in settings_for_task(task).items()
        for key, value in values.items()
    }


def corpus_settings(source: str, encoder: str, preset: str) -> dict[str, Any]:
    """The dotted settings of a registered corpus, ``vectors`` among them where it has its own; none for others."""
    return dict(CORPORA[source].settings(encoder, preset)) if source in CORPORA else {}


def _all_experiments() -> dict[str, Any]:
    from attnaudit.experiments import make_experiment, with_settings

    return {name: make_experiment(name) for name in with_settings()}


def experiment_settings(
    settings: Mapping[str, Any], task: str | None = None
) -> dict[str, dict[str, Any]]:
    """The resolved settings of every experiment for a task, with dotted ``settings`` in place. Raises InputError."""
    known = _all_experiments()
    defaults = {
        key: value for key, value in task_settings(task).items() if key.partition(".")[0] in known
    }
    return {
        name: asdict(experiment)
        for name, experiment in override(known, defaults | dict(settings)).items()
    }


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """``key = ours, there theirs`` for every dotted key in which two specs differ, whereabouts apart."""
    left, right = _flat(ours), _flat(theirs)
    keys = [
        key
        for key in dict.fromkeys([*left, *right])
        if key not in _WHEREABOUTS and left.get(key) != right.get(key)
    ]
    return [f"{key} = {_shown(left, key)}, there {_shown(right, key)}" for key in keys]


def other_settings(made: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The dotted settings of a ``spec.json`` that are not the ``usual`` ones: whereabouts, seeds and the fingerprint of the data apart."""
    left, right = _flat(made), _flat(usual)
    return {
        key: value
        for key, value in left.items()
        if key not in (*_WHEREABOUTS, *_OF_A_RUN) and value != right.get(key)
    }


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, entry in value.items():
        flat |= (
            _flat(entry, f"{prefix}{key}.")
            if isinstance(entry, Mapping)
            else {f"{prefix}{key}": entry}
        )
    return flat


def _shown(flat: Mapping[str, Any], key: str) -> str:
    return json.dumps(flat[key], ensure_ascii=False) if key in flat else "not set"
