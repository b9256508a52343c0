"""Does attention rank the tokens as measures of their importance do? (Jain & Wallace 2019, §4.1)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.numbers import count
from attnaudit.core.papers import JAIN2019
from attnaudit.core.settings import setting
from attnaudit.experiments.rows import (
    differences,
    importance_scores,
    keys,
    over_words,
    require,
    taken_names,
)
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Scale
from attnaudit.results.groups import Together, by_group, numbers_of
from attnaudit.results.measures import Measure
from attnaudit.results.words import degree, figure, interval
from attnaudit.stats.inference import benjamini_hochberg, benjamini_hochberg_counted
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace

YARDSTICK = "gradient_loo"
WEAK_YARDSTICK = (
    0.1  # below this τ two importance measures hardly agree, and a share of it means nothing
)
NEARLY = 0.85  # of the reference τ: from here on agreement supports attention
_SHARES = (
    (0.12, "hardly at all, compared with how"),
    (0.29, "about a quarter as well as"),
    (0.42, "about a third as well as"),
    (0.58, "about half as well as"),
    (0.71, "about two thirds as well as"),
    (0.85, "about three quarters as well as"),
    (0.95, "nearly as well as"),
    (1.05, "about as well as"),
)
_OCTAVES, _A_TWO = 64, 256  # p-values of a large table are counted in so many bins for each halving
_CODES = _OCTAVES * _A_TWO + 1
_AXIS = Scale("Kendall τ", 1.0, (-1.0, -0.5, 0.0, 0.5, 1.0), low=-1.0)
_PAIRS = {
    "tau_gradient": "attention and gradient",
    "tau_loo": "attention and leave-one-out",
    "tau_gradient_loo": "gradient and leave-one-out",
}


_CAPTION = (
    "Kendall τ of each instance; ticks mark class means. 1: the same order of tokens, 0: unrelated, −1: reversed. The last panel is the "
    "reference: how far two measures of importance agree with each other."
)


@dataclass(frozen=True)
class Correlation:
    """Kendall's tau-b of attention with gradient, with leave-one-out and with every ``importance_<name>`` of the trace.

    Over all tokens, or those that are not special where the trace has a column ``special``.

    ``tau_gradient_loo``, between the two importance measures themselves, is the reference for the others. The table has ``tau_<name>``
    and ``p_<name>``, null where an argument is constant or T < 2. A row counts as significant when p ≤ ``significance``.
    """

    name = "correlation"
    needs = ("gradient", "loo")
    question = "Does attention rank tokens as measures of their importance do?"
    papers = (JAIN2019,)
    measures = (
        Measure(
            "tau_gradient_loo_minus_tau_{score}",
            "τ gradient – leave-one-out minus τ attention – {score}, paired",
            "How much better the two importance measures agree with each other than attention agrees with one of them.",
            "lower",
        ),
        Measure(
            "tau_gradient_minus_tau_loo",
            "τ attention – gradient minus τ attention – leave-one-out, paired",
            "How much better attention agrees with the gradient than with leave-one-out.",
        ),
        Measure(
            "above_chance_gradient_loo",
            "probability that gradient – leave-one-out agree better than with a random order",
            "Probability that τ exceeds that of a random order of the tokens, mean over instances: 0.5 is chance, 1 certain.",
        ),
        Measure(
            "above_chance_{score}",
            "probability that attention – {score} agree better than with a random order",
            "Probability that τ exceeds that of a random order of the tokens, mean over instances: 0.5 is chance, 1 certain.",
            "higher",
        ),
        Measure(
            "tau_gradient_loo",
            "Kendall τ, gradient – leave-one-out (reference)",
            "Kendall τ-b of gradient and leave-one-out, per instance, −1 to 1: the reference for the agreement of attention.",
        ),
        Measure(
            "tau_{score}",
            "Kendall τ, attention – {score}",
            "Kendall τ-b of attention and an importance score over the tokens of an instance, −1 to 1.",
            "higher",
        ),
        Measure(
            "significant_gradient_loo_bh",
            "share significant after Benjamini–Hochberg, gradient – leave-one-out",
            "Share of instances whose τ stays significant when all instances of the group are tested at once.",
        ),
        Measure(
            "significant_{score}_bh",
            "share significant after Benjamini–Hochberg, attention – {score}",
            "Share of instances whose τ stays significant when all instances of the group are tested at once.",
            "higher",
        ),
        Measure(
            "significant_gradient_loo",
            "share with p ≤ 0.05, gradient – leave-one-out",
            "Share of instances whose τ differs from 0 at the level of the setting significance.",
        ),
        Measure(
            "significant_{score}",
            "share with p ≤ 0.05, attention – {score}",
            "Share of instances whose τ differs from 0 at the level of the setting significance.",
            "higher",
        ),
    )
    figures = (
        FigureSpec(
            "tau",
            "Does attention rank tokens as importance measures do?",
            tuple(Histogram(column, _AXIS, pair.capitalize()) for column, pair in _PAIRS.items()),
            _CAPTION,
        ),
    )
    seed: int = 0
    significance: float = setting(
        "Largest p-value of a rank correlation that counts as significant.", 0.05
    )

    def __post_init__(self) -> None:
        require(self, "significance", 0 <= self.significance <= 1, "a probability from 0 to 1")

    def refuses(self, trace: Trace) -> str | None:
        return taken_names(trace, ("gradient", "loo", YARDSTICK), "the correlations of every trace")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        scores = over_words(trace, {"alpha": trace.alpha, **importance_scores(trace)})
        alpha = scores.pop("alpha")
        gradient, loo = scores.pop("gradient"), scores.pop("loo")
        pairs = {"gradient": (alpha, gradient), "loo": (alpha, loo), YARDSTICK: (gradient, loo)}
        pairs |= {name: (alpha, score) for name, score in scores.items()}
        columns: dict[str, np.ndarray] = {}
        for name, pair in pairs.items():
            columns[f"tau_{name}"], columns[f"p_{name}"] = kendall_tau(*pair)
        return keys(trace).with_columns(
            pl.Series(name, values, nan_to_null=True) for name, values in columns.items()
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(
            self.name, by_group(table, self.of_rows, together=self._together(table)), self.seed
        )

    def _together(self, table: pl.DataFrame | pl.LazyFrame) -> list[Together]:
        """Which rows of a large table stay significant when all rows of the group are tested at once."""
        names = [
            column.removeprefix("p_")
            for column in table.lazy().collect_schema().names()
            if column.startswith("p_")
        ]

        def significant(p_values: np.ndarray, tests: np.ndarray) -> np.ndarray:
            return (benjamini_hochberg_counted(p_values, tests) <= self.significance).astype(
                np.float64
            )

        return [
            Together(
                f"significant_{name}_bh",
                lambda rows, name=name: numbers_of(rows.select(f"p_{name}")),
                _code,
                _CODES,
                significant,
                True,
            )
            for name in names
        ]

    def of_rows(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """τ and its significance for every row, with the differences of τ."""
        names = [
            column.removeprefix("tau_")
            for column in table.collect_schema().names()
            if column.startswith("tau_")
        ]
        others = [name for name in names if name != YARDSTICK]
        measures = {f"tau_{name}": pl.col(f"tau_{name}") for name in names}
        measures |= {
            f"significant_{name}": pl.col(f"p_{name}") <= self.significance for name in names
        }
        known = table.collect_schema().names()
        measures |= {
            bh: pl.col(bh)
            if bh in known
            else pl.col(f"p_{name}").map_batches(
                self._significant_together, return_dtype=pl.Boolean
            )
            for name in names
            for bh in (f"significant_{name}_bh",)
        }
        measures |= {f"above_chance_{name}": _above_chance(name) for name in names}
        pairs = [
            *((f"tau_{YARDSTICK}", f"tau_{name}") for name in others),
            ("tau_gradient", "tau_loo"),
        ]
        return table.select(*differences(*pairs), **measures)

    def _significant_together(self, p_values: pl.Series) -> pl.Series:
        """Which rows stay significant when all rows of the group are tested at once."""
        adjusted = benjamini_hochberg(p_values.fill_null(float("nan")).to_numpy())
        return pl.Series(adjusted, nan_to_null=True) <= self.significance

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        """Attention against gradient and against leave-one-out, with gradient against leave-one-out as the reference."""
        reference = rows.get("correlation", "tau_gradient_loo")
        for name, words, question in (
            ("gradient", "gradients", "Does attention rank tokens as gradients do?"),
            ("loo", "leave-one-out", "Does attention rank tokens as leave-one-out does?"),
        ):
            row = rows.get("correlation", f"tau_{name}")
            if row is None:
                continue
            sentence, claim = _agreement(
                row,
                reference,
                rows.get("correlation", f"tau_gradient_loo_minus_tau_{name}"),
                words,
                rows.unit,
            )
            sentence += rows.apart("correlation", f"tau_{name}", "τ") + _over_seeds(
                rows, name, words
            )
            known, mark = "no gradient–LOO τ is defined", None
            if reference is not None:
                known, mark = (
                    f"gradient–LOO τ {figure(reference['value'])} {interval(reference)}",
                    reference["value"],
                )
            label = f"mean Kendall τ, attention–{'LOO' if name == 'loo' else name}"
            yield card_row(
                question, label, row, known, sentence, mark=mark, scale=(-1.0, 1.0), claim=claim
            )


def _code(p_values: np.ndarray) -> np.ndarray:
    """The bin of each p-value; those below 2⁻⁶⁴ share one."""
    return np.rint(-_A_TWO * np.log2(np.maximum(p_values, 2.0**-_OCTAVES)))


def _above_chance(name: str) -> pl.Expr:
    """The probability that τ exceeds that of a random order, by its asymptotic distribution, which the two-sided p-value is of."""
    tau, half = pl.col(f"tau_{name}"), pl.col(f"p_{name}") / 2.0
    return (
        pl.when(tau > 0).then(1.0 - half).when(tau < 0).then(half).when(tau.is_not_null()).then(0.5)
    )


def _over_seeds(rows: SummaryRows, name: str, words: str) -> str:
    """How far scores agree with themselves between seeds, where a study of seeds is there."""
    attention, itself = rows.value("seeds", "tau_alpha"), rows.value("seeds", f"tau_{name}")
    if attention is None or itself is None:
        return ""
    return f" Between training seeds, attention agrees with itself at τ {figure(attention)}, {words} at τ {figure(itself)}."


def _agreement(
    row: Mapping[str, Any],
    reference: Mapping[str, Any] | None,
    gap: Mapping[str, Any] | None,
    words: str,
    unit: str,
) -> tuple[str, Claim | None]:
    """The sentence, and what may be claimed."""
    undefined = (
        f" τ is undefined for {count(row['undefined'], unit)}, excluded here."
        if row["undefined"]
        else ""
    )
    if reference is None:
        return (
            f"Attention and {words} agree at τ {figure(row['value'])}; there is no reference value to compare that with.{undefined}",
            None,
        )
    value, against = float(row["value"]), float(reference["value"])
    claim = None
    if against < WEAK_YARDSTICK:
        said = f"The two importance measures hardly agree with each other (τ {figure(against)}), so they set no firm standard here."
    elif reference["low"] is not None and reference["low"] <= 0:
        apart = f"τ {figure(against)} {interval(reference)}"
        said = f"The two importance measures do not clearly agree with each other ({apart}), so they set no firm standard here."
    elif value <= 0 or (row["low"] is not None and row["low"] <= 0):
        said = f"No agreement of attention with {words} on average, while the two importance measures agree with each other."
        claim = Claim(
            False,
            f"attention does not rank tokens as {words} {'does' if words == 'leave-one-out' else 'do'}",
            _less(words),
        )
    elif gap and gap["low"] is not None and gap["low"] <= 0 <= gap["high"]:
        said = f"Attention agrees with {words} about as well as the two importance measures agree with each other."
        claim = Claim(
            True,
            f"attention agrees with {words} about as well as importance measures agree with each other",
            _as_well(words),
        )
    else:
        share = degree(_SHARES, value / against, "better than")
        said = f"Attention agrees with {words} {share} the two importance measures agree with each other."
        supports, clause = (
            value / against >= NEARLY,
            f"attention agrees with {words} {share} importance measures agree with each other",
        )
        claim = Claim(supports, clause, _as_well(words) if supports else _less(words))
    return said + undefined, claim


def _as_well(words: str) -> str:
    return f"attention agrees with {words} nearly as well as importance measures agree with each other, or better"


def _less(words: str) -> str:
    return f"attention agrees with {words} less well than importance measures agree with each other"
