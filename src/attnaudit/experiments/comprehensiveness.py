"""Are the tokens that a score ranks first needed for the output, and enough for it? (ERASER: DeYoung et al. 2020)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Float

from attnaudit.core.papers import DEYOUNG2020
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.erasure.experiment import MOST_ORDERS
from attnaudit.experiments.erasure.falls import bounds, falls
from attnaudit.experiments.rows import (
    against_attention,
    differences,
    importance_scores,
    keys,
    no_single_decision,
    require,
    row_streams,
    vector_column,
)
from attnaudit.results import summarise_means
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.stats.measures import ERASURE_WAYS as WAYS
from attnaudit.trace import Trace

NO_SPAN = 1e-12
_KINDS: tuple[tuple[str, str, Literal["higher", "lower"]], ...] = (
    ("normalised_comprehensiveness", "normalised comprehensiveness", "higher"),
    ("normalised_sufficiency", "normalised sufficiency", "lower"),
    ("input_comprehensiveness", "comprehensiveness by deletion from the text", "higher"),
    ("input_sufficiency", "sufficiency by deletion from the text", "lower"),
    ("comprehensiveness", "comprehensiveness", "higher"),
    ("sufficiency", "sufficiency", "lower"),
)


@dataclass(frozen=True)
class Comprehensiveness:
    """How far the probability of the predicted class falls without the tokens of highest score, and with them alone.

    The tokens are removed from the attention, the weights left rescaled to sum to 1; the encoder does not run again. A score is
    ``attention``, ``gradient``, ``loo``, any ``importance_<name>``, or ``random``, the mean of ``orders`` random orders.
    ``comprehensiveness_<score>`` (high: the tokens were needed) and ``sufficiency_<score>`` (low: they are enough) are means over the best
    1, 5, 10, 20 and 50 % of the tokens, one at least; the five numbers are in ``comprehensiveness_at_<score>`` and
    ``sufficiency_at_<score>``. With two classes and an identity tail the minimum and maximum over all choices of tokens are known
    exactly, and ``normalised_<measure>_<score>`` says where between them, 0 to 1, the score's choice lies.

    ``input_<measure>_<score>`` are the same with the tokens deleted from the text and everything run again, in traces collected with
    ``collect.erase_input``.

    A row of one position, and a removal that leaves no weight, is null.
    """

    name = "comprehensiveness"
    needs = ()
    papers = (DEYOUNG2020,)
    measures = (
        *(
            Measure(
                f"{kind}_attention_minus_{kind}_{{score}}",
                f"{label}, attention minus {{score}}, paired",
                f"{label.capitalize()} of attention minus that of another score, over the same instances.",
                direction,
            )
            for kind, label, direction in _KINDS
        ),
        Measure(
            "normalised_comprehensiveness_{score}",
            "normalised comprehensiveness, {score}",
            "Comprehensiveness rescaled between the exact minimum (0) and maximum (1) over all sets of as many tokens.",
            "higher",
        ),
        Measure(
            "normalised_sufficiency_{score}",
            "normalised sufficiency, {score}",
            "Sufficiency rescaled between the exact minimum (0) and maximum (1) over all sets of as many tokens.",
            "lower",
        ),
        Measure(
            "input_comprehensiveness_{score}",
            "fall of the predicted probability, top tokens deleted from the text, {score}",
            "Comprehensiveness with the tokens deleted from the text and the whole model rerun.",
            "higher",
        ),
        Measure(
            "input_sufficiency_{score}",
            "fall of the predicted probability, text of the top tokens alone, {score}",
            "Sufficiency with the other tokens deleted from the text and the whole model rerun.",
            "lower",
        ),
        Measure(
            "comprehensiveness_{score}",
            "fall of the predicted probability without the top tokens (AOPC), {score}",
            "Fall of the predicted class's probability without the top 1, 5, 10, 20 and 50 % of tokens, mean of the five.",
            "higher",
        ),
        Measure(
            "sufficiency_{score}",
            "fall of the predicted probability with the top tokens alone (AOPC), {score}",
            "Fall of the predicted class's probability with the top 1, 5, 10, 20 and 50 % of tokens alone, mean of the five.",
            "lower",
        ),
    )
    seed: int = 0
    orders: int = setting("Number of random orders; their mean is the reference.", 5)

    def __post_init__(self) -> None:
        require(
            self, "orders", 1 <= self.orders <= MOST_ORDERS, f"1 to {MOST_ORDERS:,} random orders"
        )

    def refuses(self, trace: Trace) -> str | None:
        named = {
            name.removeprefix("importance_")
            for name in trace.table.columns
            if name.startswith("importance_")
        }
        ours = {"attention", "gradient", "loo", "random"}
        taken = sorted(
            name
            for name in named
            if name in ours or name.removeprefix("at_") in (named | ours) - {name}
        )
        if taken:
            return f"the name of column {', '.join(f'importance_{name}' for name in taken)} is taken by what is computed from another"
        odd = next((name for name in _of_input(trace) if not _holds_numbers(trace, name)), None)
        if odd is not None:
            return f"column {odd} holds {trace.table.schema[odd]}; it needs a list of numbers for every row"
        return no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        readout, alpha = trace.readout, trace.alpha
        scores = {"attention": alpha, **importance_scores(trace)}
        streams = row_streams(trace, self.seed, self.name)
        found = falls(readout, alpha, scores, streams, self.orders)
        limits = (
            bounds(readout, alpha)
            if one_logit_decides(readout) and readout.candidates is None
            else None
        )
        columns: list[pl.Series] = []
        for k, way in enumerate(WAYS):
            columns += [
                pl.Series(f"{way}_{name}", fall[:, k].mean(axis=1), nan_to_null=True)
                for name, fall in found.items()
            ]
            if limits is not None:
                columns += [
                    _normalised(f"normalised_{way}_{name}", fall[:, k], limits[:, k])
                    for name, fall in found.items()
                ]
            columns += [
                vector_column(f"{way}_at_{name}", fall[:, k]) for name, fall in found.items()
            ]
        for name in _of_input(trace):
            drops = trace.table[name].cast(pl.List(pl.Float64))
            columns.append(drops.list.mean().fill_nan(None))
        return keys(trace).with_columns(columns)

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, self.of_rows), self.seed)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """What the table has besides lists, and how far attention is ahead of every other score."""
        families = [kind for kind, _, _ in _KINDS]
        found = table.select(cs.starts_with(*families) & ~cs.nested())
        return found.with_columns(
            differences(*against_attention(found.collect_schema().names(), families))
        )


def _of_input(trace: Trace) -> list[str]:
    """The columns of the trace about tokens deleted from the input."""
    return [
        name
        for name in trace.table.columns
        if name.startswith(tuple(f"input_{way}_" for way in WAYS))
    ]


def _holds_numbers(trace: Trace, name: str) -> bool:
    kind = trace.table.schema[name]
    return isinstance(kind, pl.List | pl.Array) and kind.inner.is_numeric()


def _normalised(
    name: str, fall: Float[np.ndarray, "n S"], limits: Float[np.ndarray, "n S 2"]
) -> pl.Series:
    """Where the mean fall lies between the means of the bounds; null where these leave no room."""
    least, greatest = limits.mean(axis=1).T
    span = greatest - least
    with np.errstate(invalid="ignore", divide="ignore"):
        return pl.Series(
            name,
            np.where(span > NO_SPAN, (fall.mean(axis=1) - least) / span, np.nan),
            nan_to_null=True,
        )
