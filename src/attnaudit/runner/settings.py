"""Every setting of ``--set``, as the section that declares it states it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from operator import attrgetter
from typing import Any, get_type_hints

from attnaudit.copying.study import NAME as COPYING
from attnaudit.copying.study import Copying
from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.settings import bounds, described
from attnaudit.experiments import EXPERIMENTS, make_experiment, with_settings
from attnaudit.plans.spec import BY_OPTION, RunSpec, TranslationSpec
from attnaudit.plans.transformer import TransformerCollect, TransformerTraining
from attnaudit.runner.copying import BY_OPTION as OF_COPYING
from attnaudit.runner.copying import QUICK
from attnaudit.studies import PAIR_STUDIES, STUDIES, TRANSFORMER_STUDIES

_USUAL = {  # meanings of fields that state none
    "seed": "Seed of random draws and of the intervals.", "learning_rate": "Learning rate of Adam.", "batch": "Sequences of a batch.",
    "embedding": "Dimension of the symbols' vectors.",
}  # fmt: skip
LONG = 6  # values of a list that help and docs show
TEXTS, PAIRS, TRANSFORMERS = (
    "classifiers (run, study)",
    "translators (translate, study)",
    "transformers (hf train, study --config)",
)
_KINDS: tuple[
    tuple[Mapping[str, Any], str, Callable[[], Any]], ...
] = (  # studies, of which models, and the usual spec of these
    (STUDIES, "", lambda: RunSpec.of("text.csv")),
    (PAIR_STUDIES, " of translators", lambda: TranslationSpec.of("pairs")),
    (
        TRANSFORMER_STUDIES,
        " of transformers",
        lambda: TransformerTraining.of("text.csv", collect=TransformerCollect()),
    ),
)


@dataclass(frozen=True)
class Setting:
    """One setting: its dotted ``key``, the values it takes, its default, the default with ``--full`` where that is another, its meaning."""

    key: str
    values: str
    default: str
    full: str
    meaning: str


def sections(prefix: str = "") -> dict[str, list[Setting]]:
    """All settings whose key begins with ``prefix``, by what they are of. Raises InputError where there is none."""
    every = dict(_sections())
    found = {
        title: [one for one in settings if one.key.startswith(prefix)]
        for title, settings in every.items()
    }
    found = {title: settings for title, settings in found.items() if settings}
    if not found:
        keys = list(dict.fromkeys(one.key for settings in every.values() for one in settings))
        names = list(dict.fromkeys(key.partition(".")[0] for key in keys))
        near = did_you_mean(prefix, [*names, *keys])
        raise InputError(
            "list settings",
            "PREFIX",
            repr(prefix),
            f"the beginning of a setting: {', '.join(names)}",
            near,
        )
    return found


def _sections() -> Iterator[tuple[str, list[Setting]]]:
    texts, pairs, transformers = (base() for _, _, base in _KINDS)
    for name in ("corpus", "model", "training", "collect"):
        yield f"{name} of {TEXTS}", _settings(name, getattr(texts, name), BY_OPTION)
    for name in ("corpus", "model", "training", "collect", "decode"):
        yield (
            f"{name} of {PAIRS}",
            _settings(name, getattr(pairs, name), BY_OPTION.keys() - {"model.attention"}),
        )
    for name in ("model", "training", "schedule", "collect"):
        yield f"{name} of {TRANSFORMERS}", _settings(name, getattr(transformers, name))
    for name in EXPERIMENTS:
        if name in with_settings():
            yield f"experiment {name}", _settings(name, make_experiment(name))
    for kinds, of, _ in _KINDS:
        for name, kind in kinds.items():
            yield f"study {name}{of}", _settings(name, kind(), quick=kind.quick)
    quick = {key.partition(".")[2]: value for key, value in QUICK.items()}
    yield f"study {COPYING}", _settings(COPYING, Copying(), OF_COPYING, quick)


@dataclass(frozen=True)
class Scale:
    """What a study asks, and the settings of its default scale (``quick``) and of the published one (``full``)."""

    question: str
    quick: str
    full: str


def scales() -> dict[str, Scale]:
    """The scales of all studies."""
    found = {}
    for kinds, of, base in _KINDS:
        for name, kind in kinds.items():
            full = {key: attrgetter(key)(base() if "." in key else kind) for key in kind.quick}
            found[f"{name}{of}"] = Scale(kind.question, _assigned(kind.quick), _assigned(full))
    quick = {key.partition(".")[2]: value for key, value in QUICK.items()}
    full = {key: getattr(Copying, key) for key in quick}
    return {
        **found,
        COPYING: Scale("Does a model learn to copy, and how?", _assigned(quick), _assigned(full)),
    }


def _assigned(settings: Mapping[str, Any]) -> str:
    """``seeds=2 steps=0,50,…,400``: long lists shortened."""
    return " ".join(f"{name}={_short(value)}" for name, value in settings.items())


def _short(value: Any) -> str:
    return (
        f"{_shown(value[:3])},…,{_shown(value[-1])}"
        if isinstance(value, tuple) and len(value) > LONG
        else _shown(value)
    )


def _settings(
    name: str, section: Any, hidden: Any = (), quick: Mapping[str, Any] | None = None
) -> list[Setting]:
    hints = get_type_hints(type(section))
    found = []
    for field in fields(section):
        key, full = f"{name}.{field.name}", _shown(getattr(section, field.name))
        default = _shown((quick or {}).get(field.name, getattr(section, field.name)))
        values = ", ".join(
            filter(
                None,
                (described(hints[field.name]), bounds(field.metadata).removeprefix("a number ")),
            )
        )
        if key not in hidden:
            found.append(
                Setting(
                    key, values, default, "" if full == default else full, _meaning(section, field)
                )
            )
    return found


def _meaning(section: Any, field: Field[Any]) -> str:
    """What the field states, else the sentence of its class's docstring that names it."""
    if stated := field.metadata.get("help", _USUAL.get(field.name)):
        return stated
    sentences = re.split(r"(?<=\.)\s+", " ".join((type(section).__doc__ or "").split()))
    named = next(
        (sentence for sentence in sentences if f"``{field.name}``" in sentence), ""
    ).removeprefix(f"``{field.name}`` is ")
    return f"{named[:1].upper()}{named[1:]}".replace("``", "")


def _shown(value: Any) -> str:
    """A value as ``--set`` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(_shown, value)) or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
