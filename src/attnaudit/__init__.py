"""Is attention a faithful explanation of what a model does?

    trace = attnaudit.collect(attnaudit.load_model("RUN/model"), corpus)  # or Trace.read(path)
    results = attnaudit.audit(trace)
    results["adversary"].table
    results.show()  # the verdict card in a notebook; also trace.heatmap(0)

    # The commands run and study.
    folder = attnaudit.run("planted-decisive", settings={"training.epochs": 4})
    attnaudit.study("uniform", "planted-decisive", settings={"uniform.seeds": 2})

    # Heatmaps of any kind, of any classifier that is a function.
    attnaudit.judge(predict, texts, {"lime": scores}).show()

    # A model of the transformers library; any torch module that pools by attention.
    trace = attnaudit.hf.collect(model, tokenizer, "reviews.csv")
    trace = attnaudit.torch.collect(net, batches, attention="pool")

Audits, reports and comparisons never import torch; to train, install `attnaudit[train]`, for
translators `attnaudit[translate]`.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attnaudit.core.display import render_by

if TYPE_CHECKING:
    from attnaudit.core import AttnauditError, InputError, RunError, TraceError
    from attnaudit.core.ragged import Ragged
    from attnaudit.corpora import register_corpus
    from attnaudit.corpora.corpus import Corpus
    from attnaudit.corpora.read import read_corpus
    from attnaudit.experiments import audit
    from attnaudit.experiments.registry import register_experiment
    from attnaudit.models.classifier import load_model
    from attnaudit.models.presets import register_encoder
    from attnaudit.recipes.judge import judge
    from attnaudit.recipes.studies import study
    from attnaudit.recipes.work import compare, run, write_report
    from attnaudit.results import Results
    from attnaudit.trace import Trace
    from attnaudit.tracing.texts import collect

_HOME = {
    "AttnauditError": "core.errors",
    "Corpus": "corpora.corpus",
    "InputError": "core.errors",
    "Ragged": "core.ragged",
    "Results": "results",
    "RunError": "core.errors",
    "Trace": "trace",
    "TraceError": "core.errors",
    "audit": "experiments",
    "collect": "tracing.texts",
    "compare": "recipes.work",
    "judge": "recipes.judge",
    "load_model": "models.classifier",
    "read_corpus": "corpora.read",
    "register_corpus": "corpora",
    "register_encoder": "models.presets",
    "register_experiment": "experiments.registry",
    "run": "recipes.work",
    "study": "recipes.studies",
    "write_report": "recipes.work",
}

__all__ = [
    "AttnauditError",
    "Corpus",
    "InputError",
    "Ragged",
    "Results",
    "RunError",
    "Trace",
    "TraceError",
    "audit",
    "collect",
    "compare",
    "judge",
    "load_model",
    "read_corpus",
    "register_corpus",
    "register_encoder",
    "register_experiment",
    "run",
    "study",
    "write_report",
]
render_by("attnaudit.report.notebook")
_OF_TORCH = ("collect", "load_model")
# Modules with functions of their own, and the extras that they need.
_PARTS = {"hf": "hf", "torch": "train"}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("attnaudit")
    if name in _OF_TORCH:
        import_module("attnaudit.core.extras").require("train", f"attnaudit.{name}")
    if name in _PARTS:
        import_module("attnaudit.core.extras").require(_PARTS[name], f"attnaudit.{name}")
        return import_module(f"attnaudit.{name}")
    if name in _HOME:
        return getattr(import_module(f"attnaudit.{_HOME[name]}"), name)
    raise AttributeError(f"module 'attnaudit' has no attribute {name!r}")
