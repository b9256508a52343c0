"""How different can attention be while the output stays the same? (Jain & Wallace 2019)."""

from attnaudit.experiments.findings import furthest
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale, Violins
from attnaudit.report.words import difference, figure, with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.stats.measures import LN2

QUESTION = "How different can attention be with nearly the same output?"
_SEEN_GAP = 5e-4  # a bound closer than this has the same three decimals as the figure


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the divergence of the most different attention, at 90 % confidence if that is known."""
    plain, upper = rows.get("adversary", "emax_jsd"), rows.value("adversary", "emax_jsd_upper")
    matched, exchange = (
        rows.get("adversary", name) for name in ("matched_emax_jsd", "exchange_jsd")
    )
    row = matched or plain
    if row is None:
        return
    differs = difference(row["value"])
    loose = matched is None and upper is not None and upper - row["value"] > _SEEN_GAP
    yardstick, at_confidence = "ln 2 = 0.693 (maximum of any two attentions)", ""
    if loose:
        yardstick = f"at most {figure(upper, 3)} (upper bound), {yardstick}"
    if matched is not None and plain is not None and exchange is not None:
        yardstick = (
            f"all weight on one attended word {with_interval(exchange, 3)}; at the model's own "
            f"confidence {with_interval(plain, 3)}"
        )
        at_confidence = ", with each prediction scaled to 90 %"
    yield card_row(
        QUESTION,
        f"mean ε-max JSD{', at 90 % confidence' if matched else ', found'}",
        row,
        yardstick,
        f"On average, a search finds weights that differ {differs} from the model's own and keep "
        f"the output {within_epsilon(about, 'adversary')} of the original{at_confidence}. That "
        "they exist does not mean that training would find them (Wiegreffe & Pinter 2019).",
        places=3,
        finding=furthest(rows),
    )


def within_epsilon(about: About, experiment: str) -> str:
    """Say how much the output may change: ``within ε = 0.01``."""
    epsilon = about.setting(experiment, "epsilon")
    return f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"


_CAPTION = (
    "Jensen–Shannon divergence from the model's own attention to the most different attention "
    "found whose output stays within ε, at most ln 2. The farther right, the less the output "
    "determines the weights; low values in the lower rows would mean that peaked attention cannot "
    "be replaced."
)
_AXIS = Scale("ε-max JSD", LN2)
_CHARTS = (
    Histogram("emax_jsd", _AXIS),
    Violins("emax_jsd", _AXIS, "By the largest weight"),
)
_DISTANCE = (
    "Distance (JSD, at most 0.69) of the most different heatmap with nearly the same answer from "
    "the model's own"
)
CARD = Card(
    QUESTION,
    card_rows,
    (FigureSpec("emax", QUESTION, _CHARTS, _CAPTION),),
    plain="No very different heatmap gives the same answer",
    shows={
        "matched_emax_jsd": f"{_DISTANCE}, at a confidence of 0.9.",
        "emax_jsd": f"{_DISTANCE}.",
    },
)
