"""What a measure of an experiment or a study means, for tooltips."""

from __future__ import annotations

from attnaudit.experiments import facts
from attnaudit.results.measures import OF_TRANSLATIONS, meaning_of
from attnaudit.results.skill import OF_BASE
from attnaudit.results.words import INSTANCE, of_unit
from attnaudit.studies import EVERY_STUDY, known_measures
from attnaudit.studies.over_seeds import figure_and_model


def measure_meaning(measure: str, of: str, unit: str = INSTANCE) -> str:
    """A sentence on ``measure`` of the experiment or study ``of``, a mean over ``unit``; empty where there is none.

    An experiment and a study may share a name (``adversary``): the measures of the experiment go first.
    """
    found = meaning_of([*facts(of).measures, *(OF_TRANSLATIONS if of == "translation" else ())], measure)
    if found or of not in EVERY_STUDY:
        return of_unit(found, unit)
    known = known_measures(of)
    return meaning_of([*OF_BASE, *EVERY_STUDY[of].measures], measure) or meaning_of(known, figure_and_model(measure, known)[0])
