"""Is attention a faithful explanation of what a model does?

    trace = attnaudit.collect(attnaudit.load_model("RUN/model"), corpus)      # or Trace.read(path)
    results = attnaudit.audit(trace)
    results["adversary"].table

    folder = attnaudit.run("planted-decisive", settings={"training.epochs": 4})      # as attnaudit run does
    attnaudit.study("uniform", "planted-decisive", settings={"uniform.seeds": 2})    # as attnaudit study does

Importing this package, and every experiment on a trace, works without importing torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnaudit.core.errors import AttnauditError, InputError, TraceError
    from attnaudit.corpora import Corpus, planted_corpus, read_corpus, register_corpus
    from attnaudit.experiments import audit
    from attnaudit.experiments.registry import register_experiment
    from attnaudit.models.classifier import load_model
    from attnaudit.models.presets import register_encoder
    from attnaudit.results import Result, Results
    from attnaudit.runner.commands import compare, run, translate, write_report
    from attnaudit.runner.studies import study
    from attnaudit.trace import Trace
    from attnaudit.tracing.texts import collect

_HOME = {
    "AttnauditError": "core.errors", "InputError": "core.errors", "TraceError": "core.errors",
    "Corpus": "corpora", "planted_corpus": "corpora", "read_corpus": "corpora", "register_corpus": "corpora",
    "Trace": "trace", "Result": "results", "Results": "results",
    "load_model": "models.classifier", "register_encoder": "models.presets",
    "collect": "tracing.texts", "audit": "experiments", "register_experiment": "experiments.registry",
    "run": "runner.commands", "translate": "runner.commands", "write_report": "runner.commands",
    "compare": "runner.commands", "study": "runner.studies",
}  # fmt: skip

__all__ = [
    "AttnauditError", "Corpus", "InputError", "Result", "Results", "Trace", "TraceError",
    "audit", "collect", "compare", "load_model", "planted_corpus", "read_corpus", "register_corpus", "register_encoder",
    "register_experiment", "run", "study", "translate", "write_report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"attnaudit.{_HOME[name]}"), name)
    raise AttributeError(f"module 'attnaudit' has no attribute {name!r}")
