"""Meanings of measures, for tooltips and for the definitions at the end of a page."""

from markupsafe import Markup

from attnaudit.copying.measures import MEASURES as OF_COPYING
from attnaudit.copying.study import NAME as COPYING
from attnaudit.experiments import facts
from attnaudit.report.models import figure_and_model
from attnaudit.report.words import of_unit
from attnaudit.results import TEXT, measure_of
from attnaudit.results.measures import OF_BASE, OF_TRANSLATIONS
from attnaudit.studies import EVERY_STUDY, known_measures


def measure_meaning(measure: str, of: str, unit: str = TEXT) -> str:
    """Return a sentence on a measure; empty if there is none.

    Args:
        measure: The measure.
        of: Its experiment or study. These may share a name (``adversary``): the measures of the
            experiment go first.
        unit: Unit of the mean.
    """
    further = {"translation": OF_TRANSLATIONS, COPYING: OF_COPYING}.get(of, ())
    found = measure_of([*facts(of).measures, *further], measure).meaning
    if found or of not in EVERY_STUDY:
        return of_unit(found, unit)
    known = known_measures(of)
    own = measure_of([*OF_BASE, *EVERY_STUDY[of].measures], measure)
    return own.meaning or measure_of(known, figure_and_model(measure, known)[0]).meaning


class Terms:
    """The terms that a page explains.

    Attributes:
        defined: By meaning, its address within the page and the labels that have it.
    """

    def __init__(self) -> None:
        self.defined: dict[str, tuple[str, list[str]]] = {}

    def __call__(self, label: str, meaning: str | None) -> Markup:
        """Return the ``label`` with its meaning as a tooltip, and a link to it."""
        if not meaning:
            return Markup.escape(label)
        anchor, labels = self.defined.setdefault(meaning, (f"term-{len(self.defined) + 1}", []))
        if label not in labels:
            labels.append(label)
        return Markup('<a class="term" href="#{}">{}</a>').format(anchor, explained(label, meaning))


def explained(label: str, meaning: str | None) -> Markup:
    """Return the ``label`` with its meaning as a tooltip."""
    return (
        Markup('<abbr title="{}">{}</abbr>').format(meaning, label)
        if meaning
        else Markup.escape(label)
    )
