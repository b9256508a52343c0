"""Every setting of ``--set``, as the section that declares it states it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, get_type_hints

from attnaudit.copying.study import NAME as COPYING
from attnaudit.copying.study import Copying
from attnaudit.core.settings import bounds, described
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.experiments import EXPERIMENTS, make_experiment, with_settings
from attnaudit.plans.audit import Limits, TransformerCollect
from attnaudit.plans.spec import BY_OPTION, RunSpec, TranslationSpec
from attnaudit.plans.transformer import FineTuning, TransformerTraining
from attnaudit.recipes.calibration import BY_OPTION as OF_CALIBRATION
from attnaudit.recipes.calibration import PLACE as CALIBRATION
from attnaudit.recipes.calibration import Calibration
from attnaudit.recipes.studies import BY_OPTION as OF_COPYING
from attnaudit.studies import EVERY_STUDY, PAIR_STUDIES, STUDIES, TRANSFORMER_STUDIES, TUNED_STUDIES
from attnaudit.tracing.settings import ReplacementSettings

_SEED = "Seed of random draws and of the intervals."
# Settings that are given by options.
_ELSEWHERE = BY_OPTION | OF_COPYING | OF_CALIBRATION
LONG = 6  # values of a list that help and docs show
# Studies, of which models, and the usual spec of these.
_KINDS: tuple[tuple[Mapping[str, Any], str, Callable[[], Any]], ...] = (
    (STUDIES, "", lambda: RunSpec.of("text.csv")),
    (PAIR_STUDIES, " of translators", lambda: TranslationSpec.of("pairs")),
    (TRANSFORMER_STUDIES, " of transformers", lambda: TransformerTraining.of("text.csv")),
    (TUNED_STUDIES, " of fine-tuning", lambda: FineTuning(corpus=CorpusSpec("text.csv"))),
    ({COPYING: Copying, CALIBRATION: Calibration}, "", lambda: None),
)


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        key: Its dotted name.
        values: The values it takes.
        default: Its default.
        full: Its default with ``--full`` where that is another.
        meaning: Its effect.
    """

    key: str
    values: str
    default: str
    full: str
    meaning: str


def sections() -> dict[str, list[Setting]]:
    """Return all settings by what they are of."""
    return dict(_sections())


def _sections() -> Iterator[tuple[str, list[Setting]]]:
    texts, pairs, transformers, pretrained, _ = (base() for _, _, base in _KINDS)
    usual = ("corpus", "model", "training", "collect")
    of_transformers = ("model", "training", "schedule", "collect")
    for title, base, names, hidden in (
        ("classifiers", texts, usual, BY_OPTION),
        ("translators", pairs, (*usual, "decode"), BY_OPTION.keys() - {"model.attention"}),
        ("transformers", transformers, of_transformers, ()),
        ("pretrained transformers", pretrained, of_transformers, ()),
    ):
        for name in names:
            yield f"{name} of {title}", _settings(name, getattr(base, name), hidden)
    yield "collect of audited transformers", _settings("collect", TransformerCollect())
    yield "audit of transformers", _settings("audit", Limits())
    yield "replacement", _settings("replacement", ReplacementSettings())
    for name in EXPERIMENTS:
        if name in with_settings():
            yield f"experiment {name}", _settings(name, make_experiment(name))
    for kinds, of, _ in _KINDS:
        for name, kind in kinds.items():
            yield f"study {name}{of}", _settings(name, kind(), _ELSEWHERE, kind.quick)


@dataclass(frozen=True)
class Scale:
    """Question of a study, with the settings of its default and of its published scale."""

    question: str
    quick: str
    full: str


def scales() -> dict[str, Scale]:
    """Return the scales of studies by their names; the papers' forms of others are left out."""
    found: dict[str, Scale] = {}
    published = {study.published for study in EVERY_STUDY.values()}
    for kinds, of, base in _KINDS:
        for name, kind in kinds.items():
            if name in published:
                continue
            full = {key: attrgetter(key)(base() if "." in key else kind) for key in kind.quick}
            full |= getattr(kind, "full", {})  # copying and calibration state none
            found[f"{name}{of}"] = Scale(kind.question, _assigned(kind.quick), _assigned(full))
    return found


def _assigned(settings: Mapping[str, Any]) -> str:
    """Write settings as ``seeds=2 steps=0,50,…,400``: long lists shortened."""
    return " ".join(f"{name}={_short(value)}" for name, value in settings.items())


def _short(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > LONG:
        return f"{_shown(value[:3])},…,{_shown(value[-1])}"
    return _shown(value)


def _settings(
    name: str, section: Any, hidden: Any = (), quick: Mapping[str, Any] | None = None
) -> list[Setting]:
    hints, found = get_type_hints(type(section)), []
    for field in fields(section):
        key, full = f"{name}.{field.name}", _shown(getattr(section, field.name))
        default = _shown((quick or {}).get(field.name, getattr(section, field.name)))
        limits = bounds(field.metadata).removeprefix("a number ")
        values = ", ".join(filter(None, (described(hints[field.name]), limits)))
        meaning = field.metadata.get("help", _SEED)  # no other field states none
        if key not in hidden:
            found.append(Setting(key, values, default, "" if full == default else full, meaning))
    return found


def _shown(value: Any) -> str:
    """Write a value as ``--set`` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(_shown, value)) or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
