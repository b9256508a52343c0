"""The calibrated degree: one number that says how a model compares with the constructions.

A logistic regression gives it. The regression is monotone in each of a few measures and fitted on
the constructions of one half; the other half tells how good it is. One small JSON file stores the
measures, their centres and scales, the coefficients, and the scores of all constructed models.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.calibration.score import auc_interval, by_measure, mean_share, truth_pairs
from attnaudit.corpora.corpus import keyed

# Largest number of measures in a degree; the half `fit` has only nine constructions.
MOST = 4
# Rank correlation from which on a second measure tells nothing new.
ALIKE = 0.95
# Standard deviations from the centre at which scores are clipped, so that no measure decides alone.
CLIP = 3.0
# Number of refits on resampled constructions, for the interval of a degree.
DRAWS = 40
# Number of neighbours that judge a model.
NEAREST = 7
# Share of the neighbours that must have the same truth.
AGREE = 0.8
# Largest number of neighbours from one construction. They have one truth by definition, so with two
# of seven at least four constructions have to agree. With one of seven no model could be judged.
EACH = 2
# Distance, in standard deviations per measure, beyond which a model is not a neighbour.
FAR = 1.5
# Experiment and measure.
Key = tuple[str, str]
DATA = "calibration/data/degree.json"


@dataclass(frozen=True)
class Degree:
    """A fitted degree.

    Attributes:
        measures: Experiment, measure and direction of each measure.
        centre: Mean of each measure, oriented so that higher is better.
        scale: Standard deviation of each measure.
        coefficients: Coefficients of the clipped standard scores, 0 or more.
        intercept: The intercept.
        draws: Coefficients and intercept of each refit on resampled constructions.
        models: Confirmed models: {construction, truth, half, scores, degree}.
        made_by: Command that made the degree.
        held: Quality on the other half (`evaluated`).
    """

    measures: tuple[tuple[str, str, str], ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    draws: tuple[tuple[float, ...], ...] = ()
    models: tuple[Mapping[str, Any], ...] = ()
    made_by: str = ""
    held: Mapping[str, Any] | None = None

    def standard_scores(self, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """Return the clipped standard scores of values that are oriented: higher is better."""
        return np.clip((values - np.array(self.centre)) / np.array(self.scale), -CLIP, CLIP)

    def degrees(self, standard: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """Return the degrees, from 0 to 1, of standard scores."""
        return _logistic(standard @ np.array(self.coefficients) + self.intercept)

    def percentile(self, standard: Float[np.ndarray, " k"], percent: float) -> float:
        """Return a percentile of the degrees that the ``draws`` give one model.

        Args:
            standard: Standard scores of the model.
            percent: The percentile, 0 to 100.

        Returns:
            A degree.
        """
        draws = np.array(self.draws or [(*self.coefficients, self.intercept)])
        return float(np.percentile(_logistic(draws[:, :-1] @ standard + draws[:, -1]), percent))

    def to_json(self) -> dict[str, Any]:
        """Return the content of the degree's file."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Degree:
        """Rebuild a degree from the result of `to_json`.

        Raises:
            ValueError: The content is not that of a degree.
        """
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(plain)


@dataclass(frozen=True)
class Standing:
    """The place of a model among the constructions.

    Attributes:
        degree: Degree of the model.
        low: Lower end of its interval.
        high: Upper end of its interval.
        truth: Truth on which the nearest models agree; None for no judgement.
        reason: Reason why there is no judgement.
    """

    degree: float
    low: float
    high: float
    truth: str | None
    reason: str = ""


@cache
def shipped() -> Degree | None:
    """Return the degree that is shipped with the package; None if there is none."""
    path = files("attnaudit").joinpath(DATA)
    if not path.is_file():
        return None
    return Degree.from_json(json.loads(path.read_text(encoding="utf-8")))


def standing(
    degree: Degree,
    values: Mapping[Key, float | None],
    ends: Mapping[Key, tuple[float, float]] | None = None,
) -> Standing | None:
    """Place a model by its values.

    Args:
        degree: The degree.
        values: Values by experiment and measure.
        ends: Intervals of values, with the same keys. A value without an interval counts as exact.

    Returns:
        The standing; None if a value that the degree needs is missing. Its interval is
        conservative. It goes from the 2.5 percentile of the draws with all measures at their worse
        ends to the 97.5 percentile with all at their better ends.
    """
    columns = []
    for experiment, measure, direction in degree.measures:
        value = values.get((experiment, measure))
        if value is None or np.isnan(value):
            return None
        sign = -1.0 if direction == "lower" else 1.0
        interval = (ends or {}).get((experiment, measure), (value, value))
        columns.append([sign * one for one in (value, *interval)])
    own = np.array(columns).T
    scores, worse, better = degree.standard_scores(
        np.stack([own[0], own.min(axis=0), own.max(axis=0)])
    )
    value = float(degree.degrees(scores[None])[0])
    low, high = degree.percentile(worse, 2.5), degree.percentile(better, 97.5)
    return Standing(value, low, high, *_judge(degree, scores))


def _judge(degree: Degree, scores: Float[np.ndarray, " k"]) -> tuple[str | None, str]:
    """Return the truth on which the nearest models agree, or the reason why there is none."""
    # The root mean square over measures, so that `FAR` does not depend on their number.
    others = np.array([model["scores"] for model in degree.models])
    distance = np.sqrt(((others - scores) ** 2).mean(axis=1))
    order = np.argsort(distance, kind="stable")
    counts, near = Counter[str](), []
    for model in (degree.models[k] for k in order[distance[order] <= FAR].tolist()):
        counts[model["construction"]] += 1
        if counts[model["construction"]] <= EACH and len(near) < NEAREST:
            near.append(model)
    if len(near) < NEAREST:
        return None, "too few constructions are near"
    truths = [model["truth"] for model in near]
    most = max(("faithful", "unfaithful"), key=truths.count)
    if truths.count(most) < AGREE * len(truths):
        return None, "the nearest constructions disagree"
    return most, ""


def fitted(values: pl.DataFrame, seed: int = 0) -> Degree:
    """Fit a degree.

    Args:
        values: A table of values (`attnaudit.calibration.score`).
        seed: Seed of the resampling of constructions.

    Returns:
        The degree, fitted on the constructions of the half ``fit``, with its quality on the half
        ``held``.

    Raises:
        ValueError: No measure tells the constructions of the fit apart.
    """
    wide = wide_table(values)
    fit = wide.filter(half="fit")
    chosen = chosen_measures(fit)
    bare = _fit(fit, chosen)
    while len(chosen) > 1 and min(bare.coefficients) <= 0:
        # A better value must never lower the degree. Next to the others a measure may get a
        # negative coefficient; it is then dropped.
        slopes = zip(chosen, bare.coefficients, strict=True)
        chosen = [name for name, slope in slopes if slope > 0] or chosen[:1]
        bare = _fit(fit, chosen)
    slopes = tuple(max(slope, 0.0) for slope in bare.coefficients)
    bare = replace(bare, coefficients=slopes, draws=_draws(fit, chosen, bare, seed))
    known = wide.drop_nulls(chosen)
    standard = bare.standard_scores(known.select(chosen).to_numpy())
    degrees = bare.degrees(standard).tolist()
    models = tuple(
        {
            **facts,
            # Rounded to keep the shipped file small.
            "scores": [round(score, 4) for score in scores],
            "degree": round(float(degree), 4),
        }
        for facts, scores, degree in zip(
            known.select("construction", "truth", "half").to_dicts(),
            standard.tolist(),
            degrees,
            strict=True,
        )
    )
    degree = replace(bare, models=models)
    return replace(degree, held=evaluated(degree, "held"))


def wide_table(values: pl.DataFrame) -> pl.DataFrame:
    """Turn a table of values into one column ``experiment/measure/direction`` per measure.

    Args:
        values: A table of values. Measures without a direction are dropped.

    Returns:
        One row per confirmed cell with a known truth, oriented so that higher values are better.
    """
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


def chosen_measures(fit: pl.DataFrame) -> list[str]:
    """Choose the measures of a degree.

    Args:
        fit: Rows of `wide_table` of the half ``fit``.

    Returns:
        Names of at most `MOST` columns that all cells have, by decreasing AUC. No two of them rank
        the cells alike (`ALIKE`).

    Raises:
        ValueError: No measure tells the constructions apart.
    """
    auc = {
        name: float(truth_pairs(fit.rename({name: "value"})).mean())
        for name in fit.columns
        if "/" in name and not fit[name].null_count() and fit[name].n_unique() > 1
    }
    chosen: list[str] = []
    # Names break ties, so that the choice does not depend on the order of the table.
    for name in sorted(auc, key=lambda name: (-auc[name], name)):
        alike = [
            abs(fit.select(pl.corr(name, other, method="spearman")).item()) >= ALIKE
            for other in chosen
        ]
        if auc[name] > 0.5 and not any(alike) and len(chosen) < MOST:
            chosen.append(name)
    if not chosen:
        raise ValueError("no measure tells the constructions of the fit apart")
    return chosen


def _fit(fit: pl.DataFrame, chosen: Sequence[str]) -> Degree:
    """Fit so that both truths weigh the same, and so do all constructions of one truth."""
    from sklearn.linear_model import LogisticRegression

    values, truth = fit.select(chosen).to_numpy(), (fit["truth"] == "faithful").to_numpy()
    # A measure may be constant on resampled constructions; the 1e-9 avoids a division by 0.
    centre, scale = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    standard = np.clip((values - centre) / scale, -CLIP, CLIP)
    cells = pl.len().over("construction")
    constructions = pl.col("construction").n_unique().over("truth")
    weight = fit.select(1.0 / (cells * constructions)).to_series().to_numpy()
    model = LogisticRegression(C=1.0, max_iter=1000).fit(
        standard, truth, sample_weight=weight * fit.height / weight.sum()
    )
    measures: Any = tuple(tuple(name.split("/")) for name in chosen)
    slopes, intercept = tuple(model.coef_[0].tolist()), float(model.intercept_[0])
    return Degree(measures, tuple(centre.tolist()), tuple(scale.tolist()), slopes, intercept)


def _draws(
    fit: pl.DataFrame, chosen: Sequence[str], whole: Degree, seed: int
) -> tuple[tuple[float, ...], ...]:
    """Refit on constructions resampled within each truth.

    Coefficients are converted to the centre and scale of the ``whole`` fit.
    """
    rng, draws = keyed(seed, "degree"), []
    names = [
        fit.filter(truth=truth)["construction"].unique(maintain_order=True).to_list()
        for truth in ("faithful", "unfaithful")
    ]
    for _ in range(DRAWS):
        parts = [
            # A construction that is drawn twice counts as two.
            fit.filter(construction=str(name)).with_columns(construction=pl.lit(f"{name} {k}"))
            for of_truth in names
            for k, name in enumerate(rng.choice(of_truth, len(of_truth)))
        ]
        own = _fit(pl.concat(parts), chosen)
        slope = np.array(own.coefficients) / own.scale
        shift = float(np.sum(slope * (np.array(whole.centre) - own.centre)))
        slope = slope * whole.scale
        draws.append((*np.maximum(slope, 0.0).round(5).tolist(), round(own.intercept + shift, 5)))
    return tuple(draws)


def evaluated(degree: Degree, half: str) -> dict[str, Any]:
    """Evaluate a degree on the models of a half.

    Args:
        degree: The degree.
        half: ``fit`` or ``held``.

    Returns:
        AUC with interval, Brier score and `judgements`; empty without models.
    """
    own = [model for model in degree.models if model["half"] == half]
    if not own:
        return {}
    table = pl.DataFrame(own).select("construction", "truth", value="degree")
    error = (pl.col("value") - (pl.col("truth") == "faithful")) ** 2
    # Constructions have different numbers of models; each construction counts the same.
    brier = table.group_by("construction", maintain_order=True).agg(error.mean())["value"].mean()
    return {
        **auc_interval(truth_pairs(table))._asdict(),
        "brier": brier,
        **judgements(degree, half),
    }


def judgements(degree: Degree, half: str) -> dict[str, float | None]:
    """Judge the models of a half by the models of the other half.

    Args:
        degree: The degree.
        half: ``fit`` or ``held``.

    Returns:
        ``judged``, the share of models that get a judgement, and ``right``, the share of these
        judgements that are right: a mean over constructions with its interval (`mean_share`).
    """
    own = [model for model in degree.models if model["half"] == half]
    others = tuple(model for model in degree.models if model["half"] != half)
    judges = replace(degree, models=others)
    right: dict[str, list[bool]] = {}
    for model in own:
        truth, _ = _judge(judges, np.array(model["scores"]))
        if truth is not None:
            right.setdefault(model["construction"], []).append(model["truth"] == truth)
    mean, low, high = mean_share(np.array([np.mean(one) for one in right.values()]))
    judged = sum(map(len, right.values())) / max(len(own), 1)
    return {"judged": judged, "right": mean, "right_low": low, "right_high": high}


def _logistic(value: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-value))
