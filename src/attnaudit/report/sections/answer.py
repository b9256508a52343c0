"""The first screen of a run's page: the answer, a text with two heatmaps, and why."""

from collections.abc import Mapping, Sequence

from attnaudit.report.answer import Answer, Evidence, Example
from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import Heatmap, Instance, heatmap

MOST_CHIPS, MOST_MARKED = 8, 4  # classes that have a chip, and a mark of their own on scales
_BUDGETS = (60, 45, 30, 20, 10, 5, 1)  # tokens of a text
_MOST_CHARACTERS = 260  # so that both heatmaps are on the first screen


def answer_section(
    answer: Answer, examples: Sequence[Example], played: Mapping[str, str]
) -> Section:
    """Make the first screen.

    Args:
        answer: What may be claimed, and why.
        examples: Texts to show one at a time; empty without a trace.
        played: Address within the page of the playground of each text, by its name.
    """
    # Rows of one experiment may share a claim: the first decides.
    reasons = {one.claim: one for one in reversed(answer.evidence) if not one.row.of_model}
    several = 1 < len(answer.classes) <= MOST_MARKED
    names = [one.name for one in answer.classes] if several else []
    content = {
        "answer": answer,
        "texts": [
            (one, brief_heatmap(one.instance), played.get(one.instance.name)) for one in examples
        ],
        "facts": [brief(one.row.sentence) for one in answer.evidence if one.row.of_model]
        + ["This folder has no trace: there are no heatmaps and no list of texts."]
        * (not examples),
        "rows": [(one, one.shows, _cells(one, names)) for one in reversed(reasons.values())],
        "classes": several,
        "most": MOST_CHIPS,
        "rule": examples[0].rule if examples else "",
    }
    return Section("answer", content, "", ("sections/answer.js",), styles=("answer.css",))


def _cells(one: Evidence, names: Sequence[str]) -> list[tuple[str, str, str, float | None]]:
    """Return name, figure, sign and place of each class, or of all texts."""
    if not names:
        return [("all", one.row.figure, one.sign, one.row.place)]
    known = {name: (row.figure, row.sign, row.place) for name, row in one.classes.items()}
    return [(name, *known.get(name, ("–", "", None))) for name in names]


def brief(sentence: str) -> str:
    """Cut what a card says to its first sentence."""
    first = sentence.split(". ")[0].split("; ")[0]
    return first if first.endswith(".") else f"{first}."


def brief_heatmap(instance: Instance) -> Heatmap:
    """Draw an instance; of a long text the part with most attention."""
    pictures = (heatmap(instance, budget) for budget in _BUDGETS)
    short = (one for one in pictures if sum(map(len, one.tokens)) <= _MOST_CHARACTERS)
    return next(short, heatmap(instance, _BUDGETS[-1]))
