"""What does each attended word say for and against each class?

Sources: output relevance (Snell et al. 2020), erasure of single weights (Serrano & Smith 2019), and
the surrogate of ContextCite (Cohen-Wang et al. 2024), here for every class.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Float, Int64
from scipy.special import logsumexp

from attnaudit.core.papers import COHENWANG2024, SERRANO2019, SNELL2020
from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, PerPosition, PerRow, RowInts
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.copies import DIGITS, copies_of, log_odds
from attnaudit.experiments.rows import (
    differences,
    make_table,
    no_single_decision,
    over_words,
    summarise_measures,
)
from attnaudit.experiments.surrogate import fit_surrogate
from attnaudit.experiments.through_tail import NUMBERS, output_layer
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.bootstrap import ratio
from attnaudit.stats.kendall import kendall_tau
from attnaudit.stats.measures import two_classes
from attnaudit.trace import IdentityTail, LinearTail, Readout, TanhTail, Trace

Classes = Int64[np.ndarray, "n k"]
MOST = 4  # classes of a row that the table has; a page has no room for more
NONE = -1  # in place of a class, for a row that allows fewer


@dataclass(frozen=True)
class ClassEvidence:
    """Log-odds that each attended position adds to a class, and that are lost without it.

    The evidence of position t of T for class c is α_t (r_tc − Σ_s r_sc / T). The scale of r_tc is
    that of the class's logit less the mean logit of the other allowed classes: the log of its
    probability over the geometric mean of theirs. A number added to all logits does not change it.
    With two classes it is the log-odds; of one sigmoid output the logit for class 1, its negative
    for class 0. The sum over a text is exactly what attention adds to this number compared with
    uniform weights, if the attended sums are the logits, or the input of their layer.

    ``erasure`` is the fall of the log-odds, ln p_c − ln(1 − p_c), if the weight of t is removed and
    the others are rescaled. It goes through the tail, so it is known for every model; behind a tail
    that is not linear it is also the evidence. ``surrogate`` is the weight of the word in the fit
    of `Surrogate` to the log-odds of copies.

    A word is against the predicted class if its erasure, or its surrogate's weight, is negative.
    ``attention_against_<score>`` is the share of the attention to words that is on such words, and
    ``words_against_<score>`` is their share of the words, the mean over shuffles of attention.
    Erasure compares a word with the attended rest of the text, so most neutral words are against
    the class by it; the surrogate gives them no weight. ``attention_against_runner_up`` is about
    words whose erasure raises the next probable class. ``tau_<score>`` is Kendall's tau-b of
    evidence and score for the predicted class, and ``tau_<score>_others`` its mean over the other
    classes; with two classes that would be the same number.

    ``evidence`` has one number per position and class of ``evidence_classes``: the predicted class
    and, of three classes or more, the runner-up, the gold class and the next probable ones, up to
    `MOST`. All are null for one word; erasure is null if one word has all the weight.
    """

    name = "class_evidence"
    needs = ()
    papers = (SNELL2020, SERRANO2019, COHENWANG2024)
    measures = (
        Measure(
            "attention_against_{score}_minus_words_against_{score}",
            "attention on words against the predicted class minus their share, {score}, paired",
            "Attention on words against the predicted class minus what shuffled attention has.",
        ),
        Measure(
            "attention_against_runner_up",
            "attention on words against the runner-up",
            "Share of the attention to words that is on words whose removal raises the log-odds of "
            "the second most probable class.",
        ),
        Measure(
            "attention_against_{score}",
            "attention on words against the predicted class, {score}",
            "Share of the attention to words that is on words with a negative score for the "
            "predicted class.",
        ),
        Measure(
            "words_against_{score}",
            "share of words against the predicted class, {score}",
            "Share of words with a negative score for the predicted class: the mean over shuffles "
            "of attention.",
        ),
        Measure(
            "tau_{score}_others",
            "Kendall τ, evidence – {score}, other classes",
            "Kendall τ-b of evidence and score over words, mean over the classes that are not "
            "predicted.",
            range=SIGNED,
        ),
        Measure(
            "tau_{score}",
            "Kendall τ, evidence – {score}",
            "Kendall τ-b of evidence and score for the predicted class over words, −1 to 1.",
            range=SIGNED,
        ),
    )
    summarise = summarise_measures
    seed = 0  # no setting, so specifications of runs made before this experiment stay valid

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        if trace.task == "translation":
            return "the outputs are the words of a vocabulary, not classes"
        return no_single_decision(trace)

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return tokens + 1.0

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        classes = choose_classes(trace)
        several, erasure = classes.shape[1] > 1, erase_each(trace, classes)
        linear = split_logits(trace, classes)
        evidence, scores = erasure if linear is None else linear, {"erasure": erasure}
        if trace.has("replaced") and trace.has("replaced_prediction"):
            scores["surrogate"] = fit_each(trace, classes)
        words = over_words(trace, {"alpha": trace.alpha, "evidence": evidence, **scores})
        alpha, of_words = words.pop("alpha"), words.pop("evidence")
        columns: dict[str, Any] = {}
        for name, score in words.items():
            columns |= _against(name, alpha, score.values[:, 0])
            if name == "erasure" and linear is None:  # it is the evidence
                continue
            columns[f"tau_{name}"], *others = (
                _tau(*(one.with_values(one.values[:, k]) for one in (of_words, score)))
                for k in range(classes.shape[1])
            )
            if several:
                defined = np.isfinite(others).sum(axis=0)
                columns[f"tau_{name}_others"] = ratio(np.nansum(others, axis=0), defined)
        if several:
            columns |= _against("runner_up", alpha, words["erasure"].values[:, 1])
            del columns["words_against_runner_up"]
        listed = evidence.with_values(evidence.values.astype(np.float32))
        table = make_table(trace, {**columns, "evidence_classes": classes, "evidence": listed})
        # Erasure is NaN for a word with all the weight.
        is_known = pl.Series(np.isfinite(evidence.sum()[:, 0])) & ~table["one_word"]
        return table.with_columns(pl.when(is_known).then("evidence"))

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the measures of each row, with attention's difference from its shuffles."""
        measures = table.select(cs.starts_with("attention_against_", "words_against_", "tau_"))
        names = measures.collect_schema().names()
        against = [name for name in names if name.startswith("words_against_")]
        pairs = [(f"attention_{name.removeprefix('words_')}", name) for name in against]
        return measures.with_columns(differences(*pairs))


def choose_classes(trace: Trace) -> Classes:
    """Choose the classes of each row: predicted, runner-up, gold, then the most probable.

    Returns:
        `MOST` classes or all, `NONE` where fewer are allowed; with two classes the predicted one.
    """
    rank = two_classes(trace.prediction).astype(np.float64)
    if rank.shape[1] == 2:
        return trace.predicted[:, None].astype(np.int64)
    rows, allowed = np.arange(len(trace)), trace.candidates
    if allowed is not None:
        rank[~allowed] = NONE
    gold = trace.array("label") if trace.has("label") else np.full(len(trace), NONE)
    chosen = np.full((len(trace), min(MOST, rank.shape[1])), NONE)
    for k in range(chosen.shape[1]):
        best = trace.predicted if k == 0 else rank.argmax(axis=1)
        if k == 2:
            best = np.where((gold >= 0) & (rank[rows, gold] >= 0.0), gold, best)
        chosen[:, k] = np.where(rank[rows, best] >= 0.0, best, NONE)
        rank[rows, best] = NONE
    return chosen


def split_logits(trace: Trace, classes: Classes) -> Ragged | None:
    """Split the logits of classes into the evidence of the positions, ``(N, k)``.

    Returns:
        The evidence; None if the attended sums are not the logits, or the input of their layer.
    """
    readout, alpha, tail = trace.readout, trace.alpha, trace.readout.tail
    if isinstance(tail, IdentityTail):
        width = readout.offset.shape[1]
        tail = LinearTail(np.eye(width), np.zeros(width))
    if isinstance(tail, TanhTail) or not isinstance(tail, LinearTail):
        return None
    weight, _ = output_layer(tail, readout.activation)
    allowed = readout.candidates
    if allowed is None:
        allowed = np.ones((len(alpha), len(weight)))
    number, evidence = (
        allowed.sum(axis=1)[:, None, None],
        np.empty((len(alpha.values), len(classes.T))),
    )
    for rows in alpha.blocks(max(NUMBERS // (weight.shape[1] * len(classes.T)), 1)):
        chosen, others = weight[classes[rows]], (allowed[rows] @ weight)[:, None]
        # The logit less the mean of the other logits. A row with one allowed class has none.
        with np.errstate(invalid="ignore", divide="ignore"):
            direction = (number[rows] * chosen - others) / (number[rows] - 1.0)
        direction[classes[rows] == NONE] = np.nan
        part = alpha.take(rows)
        contribution = readout.contribution.take(rows).values
        added = np.einsum("nkp,np->nk", part.spread(direction), contribution)
        mean = part.with_values(added).sum() / part.lengths[:, None]
        evidence[alpha.positions(rows)] = part.values[:, None] * (added - part.spread(mean))
    return alpha.with_values(evidence)


def erase_each(trace: Trace, classes: Classes) -> Ragged:
    """Return the fall of each class's log-odds without each position's weight, ``(N, k)``.

    It is NaN for a position with all the weight, and for a class without a rival.
    """
    readout, alpha = trace.readout, trace.alpha
    falls = np.empty((len(alpha.values), len(classes.T)))
    width = readout.offset.shape[1] + trace.array("prediction").shape[1]
    for rows in alpha.blocks(max(NUMBERS // width, 1)):
        part = alpha.take(rows)
        weighted = part.values[:, None] * readout.contribution.take(rows).values
        sums, rest = part.with_values(weighted).sum(), 1.0 - part.values[:, None]
        is_all = rest <= TOLERANCE.rounding
        without = (part.spread(sums) - weighted) / np.where(is_all, 1.0, rest)
        own = part.spread(_log_odds(readout, sums, rows, classes))
        erased = _log_odds(readout, without, part.spread(rows), classes)
        with np.errstate(invalid="ignore"):  # infinite without a rival
            falls[alpha.positions(rows)] = np.where(is_all, np.nan, own - erased)
    return alpha.with_values(falls)


def _log_odds(
    readout: Readout,
    sums: Float[np.ndarray, "m P"],
    rows: Indices,
    classes: Classes,
) -> Float[np.ndarray, "m k"]:
    """Return ln p − ln(1 − p) of classes under attended sums, without rounding p to 1."""
    logits = readout.class_logits(sums, rows)
    found, at = np.full((len(rows), len(classes.T)), np.nan), np.arange(len(rows))
    for k, of_class in enumerate(classes[rows].T):
        others = logits.copy()
        others[at, of_class] = -np.inf
        found[:, k] = logits[at, of_class] - logsumexp(others, axis=1)
    return np.where(classes[rows] == NONE, np.nan, found)


def fit_each(trace: Trace, classes: Classes) -> Ragged:
    """Fit a surrogate to the log-odds of each class over the copies of a text, ``(N, k)``.

    Rows with fewer than two copies are NaN. Copies that store few of many outputs know the
    predicted class only.
    """
    alpha, instance = trace.alpha, trace.instance
    weights = alpha.with_values(np.full((len(alpha.values), len(classes.T)), np.nan))
    copies = trace.table["replaced"].list.len().fill_null(0).to_numpy()
    outputs, fits = trace.array("prediction").shape[1], dict[tuple[Any, ...], np.ndarray]()
    for row, (lost, fall, _, runs) in copies_of(trace, (copies > 1) & (trace.lengths > 1)):
        for k, of_class in enumerate(classes[row].tolist()):
            if k and (of_class == NONE or runs.shape[1] < outputs):
                continue
            # The heads of a text share its fits.
            key = instance[row], of_class, lost.tobytes(), fall.tobytes()
            if key not in fits:
                loss = (
                    np.round(-log_odds(runs, np.full(len(runs), of_class)), DIGITS) if k else fall
                )
                fits[key] = fit_surrogate(lost, loss)[0]
            weights[row][:, k] = fits[key]
    return weights


def _against(name: str, alpha: Ragged, score: PerPosition) -> dict[str, np.ndarray]:
    """Measure the shares of attention and of words with a negative score.

    They are NaN in rows where the score is unknown, or 0 at every word.
    """
    has_score = alpha.with_values(np.abs(score)).max() > 0.0  # False if one is NaN
    against = alpha.with_values((score < -TOLERANCE.network).astype(np.float64))
    attention = alpha.with_values(alpha.values * against.values).sum()
    shares = {"attention": (attention, alpha.sum()), "words": (against.sum(), alpha.lengths)}
    return {
        f"{kind}_against_{name}": part / np.where(has_score & (whole > 0), whole, np.nan)
        for kind, (part, whole) in shares.items()
    }


def _tau(x: Ragged, y: Ragged) -> PerRow:
    """Return Kendall's tau-b of every row, NaN if a value is."""
    # The kernel takes no NaN, and a constant row has none either.
    known = x.spread(np.isfinite(x.with_values(x.values + y.values).sum()))
    pair = (one.with_values(np.where(known, one.values, 0.0)) for one in (x, y))
    return kendall_tau(*pair).tau
