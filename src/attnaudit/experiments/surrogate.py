"""Do a few words add up to the prediction, and which ones?

Source: the sparse linear surrogate of ContextCite (Cohen-Wang et al. 2024), with words in place of
sources and the penalty of the square-root LASSO.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Bool, Float, UInt64
from numba import njit

from attnaudit.core.papers import BELLONI2011, COHENWANG2024
from attnaudit.core.random import bits, stream_keys
from attnaudit.core.shapes import PerToken
from attnaudit.experiments.copies import Lost, PerCopy, copies_of, partial_spearman
from attnaudit.experiments.rows import (
    attention_on,
    make_table,
    no_copies,
    no_single_decision,
    of_one_head,
    over_words,
    summarise_measures,
)
from attnaudit.results import SIGNED, Measure, by_group, summarise_ratio
from attnaudit.trace import SHOWN, Trace

SHARE = "surrogate_share"
LEAD = "replacement_{score}_minus_replacement_surrogate"
SWEEPS = 1000  # over all words; most fits need fewer than 30
EXACT = 1e-8  # a fit has converged if no step is larger, relative to the spread of the log-odds


@dataclass(frozen=True)
class Surrogate:
    """Sparse linear fit of the predicted class's log-odds on the words that copies keep.

    ``weights`` has the log-odds that each word adds, negative for evidence against the class. They
    are fitted to all copies of a text. Each half of the copies, drawn by the row's key, is also
    predicted by a fit to the other half: ``r2_held_out`` is its R², ``replacement_surrogate`` the
    mean correlation of its absolute weights with the change of the output, as in `Replacement`.
    On the same halves, ``surrogate_share`` is the mean correlation of the heatmap that is judged,
    ``shown`` or ``attention``, divided by the surrogate's, and a column has the difference.
    ``<heatmap>_on_surrogate`` is `attention_on` the absolute weights. ``surrogate_words`` is the
    number of words with a weight.

    Rows of one word or fewer than two copies are null, and means exclude them.
    """

    name = "surrogate"
    of_scores = True
    needs = ("replaced", "replaced_prediction")
    reserved = ("surrogate",)
    papers = (COHENWANG2024, BELLONI2011)
    measures = (
        Measure(
            SHARE,
            "change with words replaced, the heatmap's share of the surrogate",
            "The heatmap's mean correlation with the change of the output, divided by that of a "
            "sparse linear fit to other copies: 1 is as good.",
            "higher",
            range=None,
        ),
        Measure(
            LEAD,
            "change with words replaced, {score} minus surrogate, paired",
            "The heatmap's correlation with the change of the output minus that of a sparse linear "
            "fit to other copies.",
            "higher",
        ),
        Measure(
            "replacement_surrogate",
            "change with words replaced, rank correlation, surrogate",
            "Spearman's correlation of the absolute weights that copies lose with the change of "
            "the output, given the number of words replaced, over copies not fitted, −1 to 1.",
            range=SIGNED,
        ),
        Measure(
            "{score}_on_surrogate",
            "{score} on importance, surrogate",
            "Mean, over the tokens of a text and weighted by the heatmap, of a token's share "
            "of the surrogate's absolute weights, less 1/T: 0 for a uniform one, −0.5 to 1.",
            "higher",
            range=(-0.5, 1.0),
        ),
        Measure(
            "r2_held_out",
            "R² of the surrogate on copies not fitted",
            "Share of the variance of copies' log-odds that a sum over words predicts, fitted to "
            "the other half of the copies; at most 1, below 0 if worse than the mean.",
            range=None,
        ),
        Measure(
            "surrogate_words",
            "words with a weight in the surrogate",
            "Number of words of a text whose weight is not 0.",
            range=None,
        ),
    )
    seed: int = 0

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        return no_copies(trace) or no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        heatmap = SHOWN if trace.heatmap_column != "alpha" else "attention"
        lead_name, on_surrogate = LEAD.format(score=heatmap), f"{heatmap}_on_surrogate"
        # The weights of the fit to all copies, and the absolute ones of the fits to halves.
        weights, *of_halves = (
            trace.shown.with_values(np.zeros(len(trace.shown.values))) for _ in range(3)
        )
        scores = {heatmap: trace.shown, "weights": weights}
        words = over_words(trace, scores)[heatmap].lengths
        number = trace.table["replaced"].list.len().fill_null(0).to_numpy()
        names = (lead_name, "replacement_surrogate", on_surrogate, "r2_held_out", "surrogate_words")
        columns = {name: np.full(len(trace), np.nan) for name in names}
        # The heads of a text have the same copies, so they share halves and fits.
        instance = trace.instance
        streams = stream_keys(self.seed, self.name, instance)
        fits: dict[tuple[Any, ...], CrossFit] = {}
        copies = copies_of(trace, (number > 1) & (words > 1))
        first = [np.zeros(0, bool)]
        for row, (lost, fall, *_) in copies:
            text = instance[row], lost.tobytes(), fall.tobytes()
            if text not in fits:
                fits[text] = cross_fit(lost, fall, streams[row : row + 1])
            fit = fits[text]
            for values, fitted in zip(of_halves, fit.of_halves, strict=True):
                values[row][:] = np.abs(fitted)
            weights[row][:] = fit.weights
            first.append(fit.first)
            columns["r2_held_out"][row] = fit.r2
            columns["surrogate_words"][row] = np.count_nonzero(fit.weights)
        half = np.concatenate(first)
        judged = copies.where(~half), copies.where(half)
        own, ours = (
            np.mean(list(map(partial_spearman, judged, pair)), axis=0)
            for pair in (of_halves, [trace.shown] * 2)
        )
        columns["replacement_surrogate"][copies.rows] = own
        columns[lead_name][copies.rows] = ours - own
        columns[on_surrogate] = attention_on(*over_words(trace, scores).values())
        table = make_table(trace, {**columns, "weights": weights})
        has_fit = pl.col("surrogate_words").is_not_null()
        return table.with_columns(pl.when(has_fit).then("weights"))

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Average the measures, and divide the heatmap's correlation by the surrogate's."""
        # Rows without a fit were not tested, so they do not count as undefined.
        tested, own = table.lazy().drop_nulls("surrogate_words"), pl.col("replacement_surrogate")
        lead = cs.matches(f"^{LEAD.format(score='.+')}$")
        groups = by_group(tested, lambda rows: rows.select(top=lead + own, bottom=own))
        share = summarise_ratio(self.name, SHARE, groups, self.seed)
        means = pl.concat([summarise_measures(self, tested), share])
        is_shown = f"{SHOWN}_on_surrogate" in tested.collect_schema()
        return of_one_head(means, pl.lit(False)) if is_shown else means


class CrossFit(NamedTuple):
    """Fits to all copies of a text and to each half of them.

    Attributes:
        weights: Weights of the fit to all copies.
        of_halves: Weights of the fit to each half.
        first: The copies of the first half.
        r2: R² on the copies that a half lacks.
    """

    weights: PerToken
    of_halves: Float[np.ndarray, "2 T"]
    first: Bool[np.ndarray, " M"]
    r2: float


def cross_fit(lost: Lost, fall: PerCopy, stream: UInt64[np.ndarray, " 1"]) -> CrossFit:
    """Fit all copies, and each of two random halves of them."""
    half = np.zeros(len(fall), bool)
    half[np.argsort(bits(stream, np.arange(len(fall))))[: len(fall) // 2]] = True
    of_halves, error, power = [], 0.0, 0.0
    for own in (half, ~half):
        weights, base = fit_surrogate(lost[own], fall[own])
        of_halves.append(weights)
        error += ((fall - base - lost @ weights)[~own] ** 2).sum()
        power += ((fall - fall[own].mean())[~own] ** 2).sum()
    return CrossFit(
        fit_surrogate(lost, fall)[0],
        np.stack(of_halves),
        half,
        1.0 - error / power if np.ptp(fall) > 0.0 else np.nan,
    )


def fit_surrogate(lost: Lost, fall: PerCopy) -> tuple[PerToken, float]:
    """Fit the fall of a class's log-odds as a sum over lost words by the square-root LASSO.

    It minimises ‖fall − base − Σ weights‖ / √M + λ Σ |weight_t| · spread_t, where spread_t is the
    standard deviation of word t's indicator and λ = √(2 log T / M). This λ is just large enough to
    leave out words that do nothing, whatever the size of the noise (Belloni et al. 2011). So
    nothing is tuned, and weights scale with the logits. They are shrunk by about λ times the noise.

    Args:
        lost: Positions that each copy loses.
        fall: Fall of the class's log-odds in each copy.

    Returns:
        The log-odds that each position adds, and the base. Positions that are always lost
        together, such as the pieces of a word, share one weight equally.
    """
    # Columns as strings of bytes: `unique` over an axis takes far longer.
    packed = np.ascontiguousarray(np.packbits(lost, axis=0).T)
    names = packed.view(f"S{packed.shape[1]}").reshape(-1)
    _, first, place, number = np.unique(
        names, return_index=True, return_inverse=True, return_counts=True
    )
    columns = lost[:, first]
    spread = columns.std(axis=0)
    spread[spread == 0.0] = np.inf  # a word that no copy, or every copy, loses has no weight
    x, y = (columns - columns.mean(axis=0)) / spread, fall - fall.mean()
    penalty = np.sqrt(2.0 * np.log(max(len(spread), 2)) / len(y))
    found = _descend(x.T @ x / len(y), x.T @ y / len(y), y @ y / len(y), penalty)
    weights = (found / spread / number)[place]
    return weights, float(fall.mean() - lost.mean(axis=0) @ weights)


@njit(cache=True, nogil=True)
def _descend(gram, cross, power, penalty):
    """Minimise √(power − 2 b·cross + b·gram·b) + penalty · Σ|b| by coordinate descent.

    The root is the least of v / 2σ + σ / 2 over σ, so LASSO steps with penalty · σ and updates of
    σ alternate (Sun & Zhang 2012). Every diagonal entry of ``gram`` is 1 or 0.
    """
    found, slope, left = np.zeros(len(cross)), cross.copy(), power
    for _ in range(SWEEPS):
        # Rounding leaves about 1e-16 of the power when the fit is perfect.
        threshold, largest = penalty * np.sqrt(max(left, 1e-14 * power)), 0.0
        for t in range(len(cross)):
            single = slope[t] + found[t]
            step = np.sign(single) * max(abs(single) - threshold, 0.0) - found[t]
            if step != 0.0:
                left += step * (step - 2.0 * slope[t])
                # By a loop: numba takes seconds to compile an assignment of arrays.
                for other in range(len(cross)):
                    slope[other] -= step * gram[t, other]
                found[t] += step
                largest = max(largest, abs(step))
        if largest <= EXACT * np.sqrt(power):
            break
    return found
