"""The runner: what a run is, its steps, how it resumes, audits of existing traces, and sites of several runs."""

from __future__ import annotations

from attnaudit.core.settings import parse_assignments
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.spec import RunSpec, TranslationSpec, demo_spec
from attnaudit.runner.audits import audit_into, report_into
from attnaudit.runner.commands import compare
from attnaudit.runner.copying import copying_study, run_copying
from attnaudit.runner.pairing import compare_runs, write_comparison
from attnaudit.runner.pipeline import run
from attnaudit.runner.planning import plan_reproduction, plan_run, plan_study
from attnaudit.runner.site import site_into
from attnaudit.runner.studies import StudySpec, run_study, study
from attnaudit.runner.sweep import Sweep, reproduce, write_markdown

__all__ = [
    "CorpusSpec", "RunSpec", "StudySpec", "Sweep", "TranslationSpec", "audit_into", "compare", "compare_runs", "copying_study", "demo_spec",
    "parse_assignments", "plan_reproduction", "plan_run", "plan_study", "report_into", "reproduce", "run", "run_copying",
    "run_study", "site_into", "study", "write_comparison", "write_markdown",
]  # fmt: skip
