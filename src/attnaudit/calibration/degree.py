"""The calibrated degree: one number from a few measures that says where a model stands among the constructions.

It is the probability of a logistic regression, monotone in each measure, fitted on the constructions of one half; the other half says how
well it does. What it needs is in a small JSON file: measures, their centres and scales, coefficients, and where the constructions stand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.calibration.score import auc_interval, by_measure, mean_share, preferred
from attnaudit.corpora.corpus import keyed

MOST, ALIKE = (
    4,
    0.95,
)  # measures of a degree at most, and the largest rank correlation of two of them
CLIP = 3.0  # standard deviations from the centre beyond which a measure says no more
DRAWS = 40  # refits on constructions drawn again
NEAREST, AGREE = (
    7,
    0.8,
)  # models that are nearest to one that is judged, and the least share of them of one truth
EACH = 2  # of them of one construction at most: such models have one truth by definition, so that four constructions must agree
FAR = 1.5  # distance, in standard deviations a measure, beyond which the nearest models are no neighbours
BINS = 5  # of the reliability curve
Key = tuple[str, str]  # experiment and measure
DATA = "calibration/data/degree.json"


@dataclass(frozen=True)
class Degree:
    """``measures`` (experiment, measure, direction) with ``centre`` and ``scale``; ``coefficients`` (0 or more) and ``intercept`` of their
    clipped standard scores; ``draws`` the same, intercept last, of constructions drawn again. ``models`` are those that were confirmed:
    {construction, truth, scores, degree}. ``made_by`` is the command, ``held`` what the other half says (`evaluated`)."""

    measures: tuple[tuple[str, str, str], ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    draws: tuple[tuple[float, ...], ...]
    models: tuple[Mapping[str, Any], ...]
    made_by: str = ""
    held: Mapping[str, Any] | None = None

    def standard(self, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """Clipped standard scores of values that are better the higher they are."""
        return np.clip((values - np.array(self.centre)) / np.array(self.scale), -CLIP, CLIP)

    def of(self, standard: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """The degree, 0 to 1, from standard scores."""
        return _logistic(standard @ np.array(self.coefficients) + self.intercept)

    def drawn(self, standard: Float[np.ndarray, " k"], percentile: float) -> float:
        """The percentile of the degrees of one model by the ``draws``."""
        draws = np.array(self.draws or [(*self.coefficients, self.intercept)])
        return float(np.percentile(_logistic(draws[:, :-1] @ standard + draws[:, -1]), percentile))

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Degree:
        """Raises KeyError or TypeError for another file."""
        lists = ("measures", "draws")
        fixed = {name: tuple(map(tuple, plain[name])) for name in lists} | {
            name: tuple(plain[name]) for name in ("centre", "scale", "coefficients", "models")
        }
        return cls(**{**plain, **fixed})


@dataclass(frozen=True)
class Standing:
    """Where a model stands: its ``degree`` with interval, the constructions ``below`` and ``above`` it, and the ``truth`` on which the
    nearest models agree; None is no judgement, for the ``reason`` given."""

    degree: float
    low: float
    high: float
    below: str
    above: str
    truth: str | None
    reason: str = ""


@cache
def shipped() -> Degree | None:
    """The degree that comes with the package; None where there is none yet."""
    path = files("attnaudit").joinpath(DATA)
    return (
        Degree.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
    )


def standing(
    degree: Degree,
    values: Mapping[Key, float | None],
    ends: Mapping[Key, tuple[float, float]] | None = None,
) -> Standing | None:
    """Where a model stands by its values of ``(experiment, measure)``; None where one that the degree needs is missing.

    ``ends`` are the intervals of values; a value without one is taken as exact. The interval of the degree, which is monotone in each
    measure, goes from the 2.5 percentile of the draws with all measures at their worse ends to the 97.5 percentile with all at their better
    ends, and is conservative.
    """
    own = {
        (experiment, measure): values.get((experiment, measure))
        for experiment, measure, _ in degree.measures
    }
    known = {key: value for key, value in own.items() if value is not None and not np.isnan(value)}
    if len(known) < len(own):
        return None
    signs = [-1.0 if direction == "lower" else 1.0 for _, _, direction in degree.measures]
    three = (
        np.array(
            [(value, *(ends or {}).get(key, (value, value))) for key, value in known.items()]
        ).T
        * signs
    )
    found, worse, better = degree.standard(
        np.stack([three[0], three.min(axis=0), three.max(axis=0)])
    )
    value, low, high = (
        float(degree.of(found[None])[0]),
        degree.drawn(worse, 2.5),
        degree.drawn(better, 97.5),
    )
    return Standing(value, low, high, *_between(degree, value), *_nearest(degree, found))


def _nearest(degree: Degree, scores: Float[np.ndarray, " k"]) -> tuple[str | None, str]:
    """The truth on which the nearest models agree, or why there is none."""
    others = np.array([model["scores"] for model in degree.models])
    distance = np.sqrt(((others - scores) ** 2).mean(axis=1))
    near = _few_of_each(
        [
            degree.models[k]
            for k in np.argsort(distance, kind="stable").tolist()
            if distance[k] <= FAR
        ]
    )
    if len(near) < NEAREST:
        return None, "too few constructions are near"
    truths = [model["truth"] for model in near]
    most = max(("faithful", "unfaithful"), key=truths.count)
    if truths.count(most) < AGREE * len(truths):
        return None, "the nearest constructions disagree"
    return most, ""


def _few_of_each(models: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first `NEAREST` of ``models``, of each construction the first `EACH` alone."""
    seen, found = Counter[str](), []
    for model in models:
        seen[model["construction"]] += 1
        if seen[model["construction"]] <= EACH:
            found.append(model)
    return found[:NEAREST]


def _between(degree: Degree, value: float) -> tuple[str, str]:
    """The constructions whose mean degrees are next below and above a value; empty at an end."""
    names = dict.fromkeys(str(model["construction"]) for model in degree.models)
    means = {
        name: float(
            np.mean([model["degree"] for model in degree.models if model["construction"] == name])
        )
        for name in names
    }
    below = max(
        (name for name, mean in means.items() if mean <= value), key=means.__getitem__, default=""
    )
    above = min(
        (name for name, mean in means.items() if mean > value), key=means.__getitem__, default=""
    )
    return below, above


def fitted(values: pl.DataFrame, seed: int = 0) -> Degree:
    """The degree of a table of values (`attnaudit.calibration.score`), from the constructions of the half ``fit`` alone, with its intervals
    and, in ``held``, what it gives on the half ``held``. Raises ValueError where no measure tells the constructions of the fit apart."""
    wide = wide_table(values)
    fit = wide.filter(half="fit")
    chosen = chosen_measures(values, fit)
    while True:
        centre, scale, weights = _fit(fit, chosen)
        if len(chosen) == 1 or weights[:-1].min() > 0:
            break
        chosen = [
            one for one, weight in zip(chosen, weights[:-1], strict=True) if weight > 0
        ] or chosen[:1]
    bare = Degree(
        tuple(map(_named, chosen)),
        tuple(centre),
        tuple(scale),
        tuple(np.maximum(weights[:-1], 0.0).tolist()),
        float(weights[-1]),
        _draws(fit, chosen, seed),
        (),
    )
    known = wide.drop_nulls(chosen)
    standard = bare.standard(known.select(chosen).to_numpy())
    degrees = bare.of(standard)
    models = tuple(
        {
            "construction": name,
            "truth": truth,
            "half": half,
            "scores": [round(one, 4) for one in row],
            "degree": round(float(degree), 4),
        }
        for name, truth, half, row, degree in zip(
            known["construction"],
            known["truth"],
            known["half"],
            standard.tolist(),
            degrees.tolist(),
            strict=True,
        )
    )
    whole = Degree(**{**bare.__dict__, "models": models})
    return Degree(**{**whole.__dict__, "held": evaluated(whole, "held")})


def wide_table(values: pl.DataFrame) -> pl.DataFrame:
    """A row per confirmed cell of known truth, a column ``experiment/measure/direction`` for each directed measure, higher being better."""
    cells = ["construction", "truth", "half", "corpus", "encoder", "seed"]
    known = values.filter(
        pl.col("confirmed"),
        pl.col("truth").is_in(["faithful", "unfaithful"]),
        pl.col("direction") != "neither",
    )
    parts = [
        part.with_columns(pl.lit("/".join(measured)).alias("column"))
        for measured, part in by_measure(known)
    ]
    return pl.concat(parts).pivot(
        on="column", index=cells, values="value", aggregate_function="first", maintain_order=True
    )


def chosen_measures(values: pl.DataFrame, fit: pl.DataFrame) -> list[str]:
    """At most `MOST` directed measures that all cells of ``fit`` have, the best by AUC there, no two ranked alike."""
    candidates = [
        name
        for name in fit.columns
        if "/" in name and not fit[name].null_count() and fit[name].n_unique() > 1
    ]
    auc = {name: _auc_of(fit, name) for name in candidates}
    chosen: list[str] = []
    for name in sorted(candidates, key=lambda name: (-auc[name], name)):
        ranked = [abs(_rank_correlation(fit[name], fit[other])) for other in chosen]
        if auc[name] > 0.5 and max(ranked, default=0.0) < ALIKE and len(chosen) < MOST:
            chosen.append(name)
    if not chosen:
        raise ValueError("no measure tells the constructions of the fit apart")
    return chosen


def _auc_of(table: pl.DataFrame, column: str) -> float:
    named = table.select("construction", "truth", pl.col(column).alias("value"))
    return float(preferred(named.filter(truth="faithful"), named.filter(truth="unfaithful")).mean())


def _rank_correlation(first: pl.Series, second: pl.Series) -> float:
    return float(np.corrcoef(first.rank().to_numpy(), second.rank().to_numpy())[0, 1])


def _fit(fit: pl.DataFrame, chosen: Sequence[str]) -> tuple[list[float], list[float], np.ndarray]:
    """Centres, scales, and the coefficients with the intercept last; every construction has the same weight, and so has each truth."""
    from sklearn.linear_model import LogisticRegression

    values, truth = fit.select(chosen).to_numpy(), (fit["truth"] == "faithful").to_numpy()
    centre, scale = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    standard = np.clip((values - centre) / scale, -CLIP, CLIP)
    names = fit["construction"].to_list()
    of_truth = {
        kind: len({name for name, own in zip(names, truth, strict=True) if own == kind})
        for kind in (True, False)
    }
    weight = np.array(
        [
            1.0 / (names.count(name) * of_truth[bool(own)])
            for name, own in zip(names, truth, strict=True)
        ]
    )
    model = LogisticRegression(C=1.0, max_iter=1000).fit(
        standard, truth, sample_weight=weight * len(names) / weight.sum()
    )
    return centre.tolist(), scale.tolist(), np.append(model.coef_[0], model.intercept_[0])


def _draws(fit: pl.DataFrame, chosen: Sequence[str], seed: int) -> tuple[tuple[float, ...], ...]:
    """Coefficients of constructions drawn again, within each truth, on the scale of all of them."""
    rng, found = keyed(seed, "degree"), []
    centre, scale, _ = _fit(fit, chosen)
    names = {
        truth: fit.filter(truth=truth)["construction"].unique(maintain_order=True).to_list()
        for truth in ("faithful", "unfaithful")
    }
    for _ in range(DRAWS):
        parts = [
            fit.filter(construction=str(name)).with_columns(
                pl.lit(f"{name} {k}").alias("construction")
            )
            for of_truth in names.values()
            for k, name in enumerate(rng.choice(of_truth, len(of_truth)))
        ]
        own_centre, own_scale, weights = _fit(pl.concat(parts), chosen)
        slope = weights[:-1] * np.array(scale) / np.array(own_scale)
        intercept = weights[-1] + float(
            np.sum(weights[:-1] * (np.array(centre) - np.array(own_centre)) / np.array(own_scale))
        )
        found.append((*np.maximum(slope, 0.0).round(5).tolist(), round(intercept, 5)))
    return tuple(found)


def evaluated(degree: Degree, half: str) -> dict[str, Any]:
    """AUC with its interval over constructions, Brier score, the reliability curve and the `judgements` of a half of the models; every
    construction counts alike."""
    own = [model for model in degree.models if model["half"] == half]
    table = pl.DataFrame(
        [
            {"construction": one["construction"], "truth": one["truth"], "value": one["degree"]}
            for one in own
        ]
    )
    if table.is_empty():
        return {}
    pairs = preferred(table.filter(truth="faithful"), table.filter(truth="unfaithful"))
    auc = dict(zip(("auc", "low", "high", "least", "most"), auc_interval(pairs), strict=True))
    counts = table["construction"].value_counts()
    weighted = table.join(counts, on="construction").with_columns(
        (1.0 / pl.col("count")).alias("weight"),
        (pl.col("truth") == "faithful").cast(pl.Float64).alias("hit"),
    )
    brier = np.average(
        (weighted["value"] - weighted["hit"]).to_numpy() ** 2, weights=weighted["weight"].to_numpy()
    )
    binned = weighted.with_columns((pl.col("value") * BINS).floor().clip(0, BINS - 1).alias("bin"))
    sums = (
        binned.group_by("bin")
        .agg(
            (pl.col("weight") * pl.col("value")).sum().alias("said"),
            (pl.col("weight") * pl.col("hit")).sum().alias("faithful"),
            pl.col("weight").sum(),
            pl.len().alias("models"),
        )
        .sort("bin")
    )
    reliability = [
        {
            "said": row["said"] / row["weight"],
            "faithful": row["faithful"] / row["weight"],
            "models": row["models"],
        }
        for row in sums.iter_rows(named=True)
    ]
    return {**auc, "brier": float(brier), "reliability": reliability, **judgements(degree, half)}


def judgements(degree: Degree, half: str) -> dict[str, float | None]:
    """Of the models of a half, judged by those of the other half alone: the share ``judged``, and the share of these that are ``right``, as
    a mean over constructions, with its interval (`mean_share`)."""
    others = tuple(model for model in degree.models if model["half"] != half)
    alone = Degree(**{**degree.__dict__, "models": others})
    said = [
        (model, _nearest(alone, np.array(model["scores"]))[0])
        for model in degree.models
        if model["half"] == half
    ]
    judged = pl.DataFrame(
        [
            (model["construction"], model["truth"] == found)
            for model, found in said
            if found is not None
        ],
        schema={"construction": pl.String, "right": pl.Boolean},
        orient="row",
    )
    shares = (
        judged.group_by("construction", maintain_order=True)
        .agg(pl.col("right").mean())["right"]
        .to_numpy()
    )
    right = dict(zip(("right", "right_low", "right_high"), mean_share(shares), strict=True))
    return {"judged": judged.height / max(len(said), 1), **right}


def _named(column: str) -> tuple[str, str, str]:
    experiment, measure, direction = column.split("/")
    return experiment, measure, direction


def _logistic(value: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-value))
