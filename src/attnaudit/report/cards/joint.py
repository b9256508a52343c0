"""What if the attention of all heads of a layer changes at once?"""

from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import heads
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.stats.measures import LN2

QUESTION = "How much does the output depend on the weights of all heads at once?"
_CAPTION = (
    "Change of the output (TVD) when the weights of all heads of a layer are replaced at once: by "
    "uniform weights, and by the worst choice of one token for each head that a search found. Far "
    "to the left, the layer's attention as a whole hardly matters to the output."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the change under uniform and under the worst weights; not of one head."""
    known = rows.all_of("joint", "joint_uniform", "joint_flips", "joint_max_delta_y")
    if not known or rows.head is not None:
        return
    row, flips, most = known
    alone = rows.value("maximal_change", "max_delta_y")
    # Figures of a layer are the same in the rows of all its heads, and said once.
    one_layer = rows.audited is not None and len(rows.audited.layers) == 1
    layer = f"the {heads(rows)}" if one_layer else "all heads of a layer"
    one = "" if alone is None else f"one head alone {figure(alone, 3)}, "
    yield card_row(
        QUESTION,
        "mean Δŷ, uniform weights in all heads",
        row,
        f"largest found, {one}all heads {figure(most['value'], 3)}",
        f"Uniform weights in {layer} at once change the output by {figure(row['value'], 3)} on "
        "average; the worst weights that were tried, by "
        f"{with_interval(most, 3)}, and flip {percent(flips['value'])} of the decisions."
        f"{_other_mean(rows, about)}{_by_layer(rows)}",
        places=3,
    )


def _other_mean(rows: SummaryRows, about: About) -> str:
    """Say how different a mean of the heads with nearly the same output was found."""
    row = rows.get("joint", "joint_emax_jsd")
    if row is None:
        return ""
    epsilon = about.setting("joint", "epsilon", 0.01)
    return (
        f" A mean of the heads that differs by a JSD of {with_interval(row)} of at most "
        f"{figure(LN2)} was found with nearly the same output (Δŷ ≤ {epsilon:g}); there may be "
        "more different ones."
    )


def _by_layer(rows: SummaryRows) -> str:
    """Name the lowest and the highest layer, and say what all layers do together."""
    known = rows.all_of("joint", "layers_uniform", "layers_flips", "layers_max_delta_y")
    layers = {layer: row for (layer, _), row in rows.heads("joint", "joint_uniform").items()}
    if not known or len(layers) < 2:
        return ""
    uniform, flips, most = known
    ordered = sorted(layers, key=lambda layer: layers[layer]["value"])
    low, high = (
        f"{figure(layers[layer]['value'], 3)} (layer {layer})"
        for layer in (ordered[0], ordered[-1])
    )
    return (
        f" By layer: {low} to {high}. Uniform weights in all recorded heads of all {len(layers)} "
        f"layers change it by {with_interval(uniform, 3)}; the worst that were tried, by "
        f"{with_interval(most, 3)}, and flip {percent(flips['value'])} of the decisions."
    )


_CHARTS = (
    Histogram("joint_uniform", Scale("Δŷ, uniform weights in all heads")),
    Histogram("joint_max_delta_y", Scale("largest Δŷ found, all heads")),
)
CARD = Card(
    QUESTION,
    card_rows,
    (FigureSpec("joint", QUESTION, _CHARTS, _CAPTION),),
    plain="The answer depends on the weights of its heads",
    shows={
        "joint_uniform": "Change of the output with equal weights in all heads of the layer at "
        "once, 0 to 1."
    },
)
