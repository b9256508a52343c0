"""Does attention rank the tokens as measures of their importance do? (Jain & Wallace 2019)."""

from attnaudit.core import count
from attnaudit.experiments.findings import agreement
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import REFERENCES
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import degree, figure, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "Does attention rank tokens as measures of their importance do?"
_NAME = "correlation"
# Fractions that people know; each step ends midway to the next.
_SHARES = (
    (0.12, "hardly at all, much less than"),
    (0.29, "about a quarter as well as"),
    (0.42, "about a third as well as"),
    (0.58, "about half as well as"),
    (0.71, "about two thirds as well as"),
    (0.85, "about three quarters as well as"),
    (0.95, "nearly as well as"),
    (1.05, "about as well as"),
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word attention's agreement with gradients and with leave-one-out."""
    reference = rows.get(_NAME, "tau_gradient_loo")
    who, prefix = "attention", ""
    if rows.get(_NAME, "tau_shown_loo") is not None:
        who, prefix = "the heatmap", "shown_"
    for name, words, verb in (("gradient", "gradients", "do"), ("loo", "leave-one-out", "does")):
        row = rows.get(_NAME, f"tau_{prefix}{name}")
        if row is None:
            continue
        finding = agreement(rows, prefix + name)
        code = "" if finding is None else finding.code
        sentence = _sentence(rows, prefix + name, (who, words), code)
        if row["undefined"]:
            excluded = count(row["undefined"], rows.unit)
            sentence += f" τ is undefined for {excluded}, excluded here."
        known = "no gradient–LOO τ is defined"
        if reference is not None:
            known = f"gradient–LOO τ {with_interval(reference)}"
        yield card_row(
            f"Does {who} rank tokens as {words} {verb}?",
            f"mean Kendall τ, {who}–{'LOO' if name == 'loo' else name}",
            row,
            known,
            sentence,
            finding=finding,
            plain="It ranks words as other measures do" if prefix else "",
            shows=CARD.shows[f"tau_{name}"].replace("attention", who) if prefix else "",
        )


def _sentence(rows: SummaryRows, name: str, pair: tuple[str, str], code: str) -> str:
    """Word the agreement with one importance measure."""
    value, (who, words) = rows.value(_NAME, f"tau_{name}") or 0.0, pair
    begin = f"{who[:1].upper()}{who[1:]}"
    reference = rows.get(_NAME, "tau_gradient_loo")
    if reference is None:
        return (
            f"{begin} and {words} agree at τ {figure(value)}; there is no reference value to "
            "compare that with."
        )
    if code == "weak_reference":
        return (
            "The two importance measures are not shown to agree with each other "
            f"(τ {with_interval(reference)}), so they set no firm standard here."
        )
    if code == "none":
        return (
            f"No agreement of {who} with {words} on average, while the two importance measures "
            "agree with each other."
        )
    share = degree(_SHARES, value / reference["value"], "better than")
    return f"{begin} agrees with {words} {share} the two importance measures agree with each other."


_CAPTION = (
    "Kendall τ of each text. 1: the same order of tokens, 0: "
    "unrelated, −1: reversed. The last panel is the reference: how far two measures of importance "
    "agree with each other."
)
_AXIS = Scale("Kendall τ", low=-1.0)
_CHARTS = (
    Histogram("tau_gradient", _AXIS, "Attention and gradient"),
    Histogram("tau_loo", _AXIS, "Attention and leave-one-out"),
    Histogram("tau_gradient_loo", _AXIS, "Gradient and leave-one-out"),
)
_TITLE = "Does attention rank tokens as importance measures do?"
CARD = Card(
    QUESTION,
    card_rows,
    (FigureSpec("tau", _TITLE, _CHARTS, _CAPTION),),
    plain="Attention ranks words as other measures do",
    shows={
        f"tau_{name}": f"Kendall's τ of attention with {words}: 1 for the same order of the words, "
        "0 for unrelated orders."
        for name, words in REFERENCES.items()
    },
)
