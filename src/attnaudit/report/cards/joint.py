"""What if the attention of all heads of a layer changes at once? One head alone may hardly matter because the others say the same."""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Scale
from attnaudit.results.words import figure, interval, percent

QUESTION = "How much does the output depend on the weights of all heads at once?"

MATTERS = (
    0.15  # a change of probability from which on all weights of a layer together are said to matter
)


_CAPTION = (
    "Change of the output (TVD) when the weights of all heads of a layer are replaced at once: by uniform weights, and by the worst choice "
    "of one token for each head that a search found. Far to the left, the layer's attention as a whole hardly matters to the output."
)


def _layers(rows: SummaryRows) -> str:
    """Which heads have their weights replaced at once."""
    one = rows.audited is not None and len({layer for layer, _ in rows.audited.names}) == 1
    return f"the {rows.heads}" if one else "all heads of a layer"


def _by_layer(rows: SummaryRows) -> str:
    """The lowest and the highest layer, and what all layers do together."""
    everything = rows.get("joint", "layers_uniform")
    layers = {layer: row for (layer, _), row in rows.of_heads("joint", "joint_uniform").items()}
    if everything is None or len(layers) < 2:
        return ""
    ordered = sorted(layers, key=lambda layer: layers[layer]["value"])
    low, high = (
        f"{figure(layers[layer]['value'], 3)} (layer {layer})"
        for layer in (ordered[0], ordered[-1])
    )
    return (
        f" By layer: {low} to {high}. Uniform weights in all recorded heads of all {len(layers)} layers change it by "
        f"{figure(everything['value'], 3)} {interval(everything, 3)}{_worst_of_layers(rows)}."
    )


def _worst_of_layers(rows: SummaryRows) -> str:
    """The worst weights tried in all layers; nothing in summaries of earlier versions."""
    flips, most = rows.get("joint", "layers_flips"), rows.get("joint", "layers_max_delta_y")
    if flips is None or most is None:
        return ""
    flipped = f"and flip {percent(flips['value'])} of the decisions"
    return (
        f"; the worst that were tried, by {figure(most['value'], 3)} {interval(most, 3)}, {flipped}"
    )


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, flips, most = (
        rows.get("joint", f"joint_{name}") for name in ("uniform", "flips", "max_delta_y")
    )
    if (
        row is None or flips is None or most is None or rows.head is not None
    ):  # figures of a layer are not those of one head
        return
    alone = rows.get("maximal_change", "max_delta_y")
    one = (
        "largest found, "
        if alone is None
        else f"largest found, one head alone {figure(alone['value'], 3)}, "
    )
    sentence = (
        f"Uniform weights in {_layers(rows)} at once change the output by {figure(row['value'], 3)} on average; the worst weights "
        f"that were tried, by {figure(most['value'], 3)} {interval(most, 3)}, and flip {percent(flips['value'])} of the decisions."
        f"{_by_layer(rows)}"
    )
    matters = row["value"] >= MATTERS
    clause = (
        f"uniform weights in {_layers(rows)} change its output {'clearly' if matters else 'little'}"
    )
    yield card_row(
        QUESTION,
        "mean Δŷ, uniform weights in all heads",
        row,
        f"{one}all heads {figure(most['value'], 3)}",
        sentence,
        mark=float(most["value"]),
        places=3,
        claim=Claim(matters, clause),
    )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "joint",
            QUESTION,
            (
                Histogram(
                    "joint_uniform",
                    Scale("Δŷ, uniform weights in all heads", 1.0, (0.0, 0.25, 0.5, 0.75, 1.0)),
                    bins=30,
                ),
                Histogram(
                    "joint_max_delta_y",
                    Scale("largest Δŷ found, all heads", 1.0, (0.0, 0.25, 0.5, 0.75, 1.0)),
                    bins=30,
                ),
            ),
            _CAPTION,
        ),
    ),
)
