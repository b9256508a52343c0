"""The constructions of both halves, read from TOML files. Some are single, some in pairs."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, get_args

from attnaudit.calibration.construction import CONSTRUCTIONS, Construction, Half
from attnaudit.calibration.transform import contributed, drawn, permuted, sharpened, shifted
from attnaudit.corpora.prepare.planting import DECOY_WORDS
from attnaudit.training.settings import Objective

# Strength of the loss on attention, which is added to the loss on labels. Attention is trained
# towards its target and not imposed, because imposed attention has no leave-one-out, and its traces
# could be told by their columns.
STRENGTH = 3.0
_MASS = 0.85  # weight of the words on which the attention of a matched pair is trained
_OBJECTIVES = {kind.kind: kind for kind in get_args(Objective)}
_TRANSFORMS = {one.__name__: one for one in (contributed, drawn, permuted, sharpened, shifted)}


def _objective(kind: str, **fields: Any) -> Objective:
    words = {"words": tuple(sorted(DECOY_WORDS))} if fields.get("target") == "words" else {}
    return _OBJECTIVES[kind](**{"strength": STRENGTH, **words, **fields})


def _pair(
    pair: str, starts: list[str], title: str, reason: str, **fields: Any
) -> Iterator[dict[str, Any]]:
    """Yield the fields of two constructions that differ only in which words are attended to.

    Corpus, encoder, seed, settings and target weights are the same.

    Args:
        pair: Name of the pair.
        starts: How the names of the faithful and of the unfaithful construction start.
        title: How it differs from the pair ``one``.
        reason: Why the deciding words are known.
        **fields: Other fields of `Construction`.
    """
    planted = {"planted_length": 20, **fields.pop("planted", {})}
    words = planted.get("planted_words", 1) + 2 * planted.get("planted_counter", 0)
    # At this temperature, the softmax gives the words `_MASS`.
    odds = _MASS / (1.0 - _MASS) * (planted["planted_length"] - words) / words
    guided = {"kind": "guided", "temperature": 1.0 / math.log(odds), **fields.pop("objective", {})}
    for start, truth, on, target in (
        (starts[0], "faithful", "the deciding words", "rationale"),
        (starts[1], "unfaithful", "decoys", "words"),
    ):
        yield {
            "name": f"{start}_{pair}",
            "title": f"{title}, attention trained on {on}",
            "truth": truth,
            "reason": f"{reason}; attention is trained on {on}.",
            "planted": planted,
            "objective": {**guided, "target": target},
            **fields,
        }


def _read(half: Half) -> Iterator[Construction]:
    """Read the constructions of a half."""
    file = files("attnaudit").joinpath(f"calibration/data/{half}.toml")
    plain: Mapping[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    for entry in plain["construction"]:
        for one in _pair(**{**plain["pairs"], **entry}) if "pair" in entry else [entry]:
            objective = {"objective": _objective(**one["objective"])} if "objective" in one else {}
            encoders, transform = tuple(one["encoders"]), _TRANSFORMS.get(one.get("transform", ""))
            fields = {**one, "encoders": encoders, "transform": transform, **objective}
            yield Construction(**fields, half=half)


for _construction in (*_read("fit"), *_read("held")):
    CONSTRUCTIONS.register(_construction)
