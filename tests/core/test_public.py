"""The public interface: few names, each told in its docstring, none of them in the way of another."""

from importlib.metadata import version
from pathlib import Path

import pytest

import attnaudit
from attnaudit.corpora.planted import planted_corpus
from tests.forked import printed
from tests.traces import make_trace


def test_few_names():
    assert len(attnaudit.__all__) <= 20


@pytest.mark.parametrize("name", attnaudit.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    thing = getattr(attnaudit, name)
    assert (thing.__doc__ or "").strip()
    assert not (thing.__doc__ or "").startswith(
        f"{name}("
    )  # what a dataclass without a docstring has


@pytest.mark.slow
def test_a_public_name_is_never_a_module_of_that_name():
    """Importing a submodule sets it as an attribute of the package, which would hide a function of its name. Before that: no torch."""
    code = "import attnaudit, attnaudit.tracing.texts, attnaudit.recipes, attnaudit.experiments\nassert callable(attnaudit.collect)"
    without_torch = "import sys, attnaudit\nattnaudit.audit, attnaudit.Trace, attnaudit.compare\nassert 'torch' not in sys.modules"
    printed(f"{without_torch}\n{code}")
    for name in attnaudit.__all__:
        assert callable(getattr(attnaudit, name))


def test_public_objects_say_what_they_are():
    trace = make_trace(12, (3, 9), seed=1)
    assert repr(trace).startswith("Trace")
    assert "12 rows" in repr(trace)
    results = attnaudit.audit(trace, ["permutation", "correlation"])
    text = repr(results)
    assert text.startswith("Results of permutation, correlation")
    assert "permutation.median_delta_y = " in text
    assert len(text.splitlines()) <= 25
    assert repr(results["permutation"]).startswith("Result permutation")
    corpus = planted_corpus("decisive", size=40, length=(10, 12))
    assert repr(corpus).startswith("Corpus planted-decisive: classification, 32 train")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run", ["planted-decisive"]),
        ("run", ["planted-copy"]),
        ("study", ["uniform", "planted-decisive"]),
    ],
)
def test_options_are_checked_as_on_the_command_line(name, arguments):
    with pytest.raises(attnaudit.InputError, match=r"did you mean training\.epochs"):
        getattr(attnaudit, name)(*arguments, settings={"training.epoch": 4})


def test_the_version_is_that_of_the_installation_and_names_are_listed():
    assert attnaudit.__version__ == version("attnaudit")
    assert set(attnaudit.__all__) <= set(dir(attnaudit))
    assert (Path(attnaudit.__file__).parent / "py.typed").exists()
