"""Experiments: one file per question. Each is a frozen dataclass that maps a trace to a table."""

from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.agreement import Agreement
from attnaudit.experiments.alignment import Alignment
from attnaudit.experiments.audits import (
    Tables,
    audit,
    plan_audit,
    run_audit,
    settings_for_task,
)
from attnaudit.experiments.class_evidence import ClassEvidence
from attnaudit.experiments.comprehensiveness import Comprehensiveness
from attnaudit.experiments.correlation import Correlation
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.identifiability.experiment import Identifiability
from attnaudit.experiments.joint import Joint
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.plausibility import Plausibility
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.experiments.registry import (
    EXPERIMENTS,
    Experiment,
    facts,
    make_experiment,
    measure_label,
    refusal,
    register_experiment,
    require_usable,
    with_settings,
)
from attnaudit.experiments.replacement import Replacement
from attnaudit.experiments.rows import keys
from attnaudit.experiments.shards import tables_of_shards
from attnaudit.experiments.surrogate import Surrogate
from attnaudit.results import by_group

# Reports and audits follow the order of registration.
for _experiment in (
    Prediction,
    Replacement,
    Surrogate,
    ClassEvidence,
    Correlation,
    Permutation,
    MaximalChange,
    Joint,
    Adversary,
    Ranges,
    Identifiability,
    Erasure,
    Comprehensiveness,
    Plausibility,
    Agreement,
    Alignment,
):
    register_experiment(_experiment)

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Tables",
    "audit",
    "by_group",
    "facts",
    "keys",
    "make_experiment",
    "measure_label",
    "plan_audit",
    "refusal",
    "register_experiment",
    "require_usable",
    "run_audit",
    "settings_for_task",
    "tables_of_shards",
    "with_settings",
]
