"""The list of settings: nothing is missing, every meaning is stated, and the pages have the same scales."""

from dataclasses import fields
from pathlib import Path

import pytest

from attnaudit.core import InputError
from attnaudit.core.settings import coerce
from attnaudit.plans.spec import BY_OPTION, RunSpec, TranslationSpec
from attnaudit.recipes.settings import scales, sections
from attnaudit.recipes.study import StudySpec
from attnaudit.studies import EVERY_STUDY, PAIR_STUDIES, STUDIES
from attnaudit.studies.uniform import Uniform

EVERY = [one for settings in sections().values() for one in settings]


def test_every_setting_says_what_it_means():
    assert [one.key for one in EVERY if len(one.meaning.split()) < 2] == []
    assert len(EVERY) > 100


def test_every_setting_is_listed_and_its_default_is_a_value_that_it_takes():
    """A default, given as text, changes nothing."""
    texts, titles = (
        RunSpec.of("text.csv"),
        {
            title: {one.key: one.default for one in settings}
            for title, settings in sections().items()
        },
    )
    for base in (texts, TranslationSpec.of("pairs")):
        for name in ("corpus", "model", "training", "collect"):
            listed = {
                key for title in titles if title.startswith(f"{name} of") for key in titles[title]
            }
            keys = {f"{name}.{field.name}" for field in fields(getattr(base, name))}
            assert keys - listed <= BY_OPTION.keys()
    ours = {}
    for title, given in titles.items():
        if "classifiers" in title or title.startswith("experiment"):
            ours |= given
    assert RunSpec.of("text.csv", settings=ours) == texts
    for name in STUDIES:
        given = titles[f"study {name}"]
        assert StudySpec.of(name, "text.csv", settings=given) == StudySpec.of(name, "text.csv")


def test_full_is_listed_where_it_differs():
    found = {one.key: one for one in sections()["study uniform"]}
    assert (found["uniform.seeds"].default, found["uniform.seeds"].full) == ("3", "5")
    assert found["uniform.seed"].full == ""


@pytest.mark.parametrize("name", EVERY_STUDY)
def test_full_is_what_the_study_declares(name):
    for kinds, source in ((STUDIES, "planted-decisive"), (PAIR_STUDIES, "planted-reverse")):
        if name in kinds:
            assert StudySpec.of(name, source, full=True).study == kinds[name]()
            quick = StudySpec.of(name, source)
            assert {
                key: getattr(quick.study, key) for key in kinds[name].quick if "." not in key
            }.items() <= dict(kinds[name].quick).items()


def test_a_given_setting_goes_before_the_scale():
    seven = StudySpec.of("uniform", "planted-decisive", settings={"uniform.seeds": 7})
    assert seven.study == Uniform(seeds=7)
    four = {"training.epochs": 4}
    for full, settings, epochs in ((False, {}, 10), (True, {}, 30), (False, four, 4)):
        spec = StudySpec.of("deceive", "planted-reverse", full=full, settings=settings)
        assert spec.base.training.epochs == epochs


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", ["guide", "adversary", "deceive"])
def test_epochs_of_a_study_bind_its_own_trainings(name, full):
    for own, epochs in (({}, 6), ({f"{name}.epochs": 9}, 9)):
        settings = {"training.epochs": 6, **own}
        spec = StudySpec.of(name, "planted-decisive", full=full, settings=settings)
        assert (spec.base.training.epochs, spec.study.epochs) == (6, epochs)  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", ["planted-decisive", "planted-reverse"])
def test_dynamics_says_that_epochs_have_no_effect(source):
    with pytest.raises(
        InputError,
        match=r"training\.epochs: 6, which has no effect in dynamics; expected dynamics\.steps",
    ):
        StudySpec.of("dynamics", source, settings={"training.epochs": 6})


def test_the_page_of_studies_has_every_scale():
    page = (Path(__file__).parents[2] / "docs/studies.md").read_text()
    for name, scale in scales().items():
        row = f"| `{name}` | {_code(scale.quick)} | {_code(scale.full)} |"
        assert row in page, row


def _code(settings):
    return ", ".join(f"`{one}`" for one in settings.split())


@pytest.mark.parametrize(("key", "told"), [
    ("traning.epochs", "did you mean training.epochs?"), ("decode.bem", "did you mean decode.beam?"),
    ("erasure.order", "did you mean erasure.orders?"), ("model.foo", ""),
])  # fmt: skip
def test_a_mistyped_setting_of_a_translator_is_told_with_what_there_is(key, told):
    """Its own sections and those of experiments; of a known section what is alike but for the section's name."""
    with pytest.raises(InputError, match=r"no such setting; expected (section|one of)") as raised:
        TranslationSpec.of("planted-reverse", settings={key: 1})
    assert raised.value.do == told


def test_values_are_described():
    found = {one.key: one for one in EVERY}
    assert found["training.patience"].values == "a whole number or none, 1 or more"
    assert found["corpus.train_kept"].values == "a number or none, above 0, up to 1"
    assert coerce(found["dynamics.steps"].full, tuple[int, ...], "steps")[-1] == 4000


def test_a_wrong_choice_is_told_the_choices_of_the_help():
    """Not none, which stands for the default of an option that is left out."""
    with pytest.raises(InputError) as raised:
        RunSpec.of("text.csv", digits="maks")
    assert (raised.value.expected, raised.value.do) == ("one of keep, mask", "did you mean mask?")


def test_a_list_of_many_brackets_is_refused():
    with pytest.raises(InputError):
        coerce("[" * 100_000, tuple[int, ...], "sizes")
