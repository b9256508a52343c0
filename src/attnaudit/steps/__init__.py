"""Steps: what is made once in a folder, resumed after a kill, here or on a cluster."""

from attnaudit.steps.finished import (
    check_place,
    read_spec,
    refuse_other,
    require_as_written,
    require_finished,
    trace_digests,
    whole_manifest,
)
from attnaudit.steps.folder import MANIFEST, SPEC, Folder, Step, held, read_manifest
from attnaudit.steps.pool import SERIAL, Call, Pool
from attnaudit.steps.ray_pool import pool_of
from attnaudit.steps.recipe import Planned, Recipe, execute, plan

__all__ = [
    "MANIFEST",
    "SERIAL",
    "SPEC",
    "Call",
    "Folder",
    "Planned",
    "Pool",
    "Recipe",
    "Step",
    "check_place",
    "execute",
    "held",
    "plan",
    "pool_of",
    "read_manifest",
    "read_spec",
    "refuse_other",
    "require_as_written",
    "require_finished",
    "trace_digests",
    "whole_manifest",
]
