"""The model that a trace was collected from, where an audit is given one or the trace holds one: it must be that model, as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import activate, tvd
from attnaudit.trace import Trace, trace_metadata
from attnaudit.trace.tails import Network

OPERATION = "audit"


def network_of(trace: Trace | str | Path, replay: Any = None) -> Network | None:
    """The checked model of a trace: ``replay`` (a `Network`, a model of the transformers library or its folder), else that which it holds.

    Raises InputError where it is not the one that the trace was collected from, also where the trace stores its tail and needs none.
    """
    held = trace.tail if isinstance(trace, Trace) and isinstance(trace.tail, Network) else None
    network = (
        held if replay is None or (held is not None and replay is held.model) else _network(replay)
    )
    if network is None:
        return None
    metadata = trace.metadata if isinstance(trace, Trace) else trace_metadata(trace)
    model = metadata.get("model")
    known = model.get("fingerprint") if isinstance(model, dict) else None
    if known is None and network is held:
        return network
    if not isinstance(known, str):
        raise InputError(
            OPERATION,
            "replay",
            "a model for a trace that names none",
            "a trace with the fingerprint of its model",
            "leave it out",
        )
    current = network.current_fingerprint()
    if current != known:
        got, expected = (
            f"a model with the fingerprint {current[:12]}…",
            f"the model {known[:12]}… that the trace was collected from",
        )
        do = "it is another model, or its weights or its configuration were changed since: collect a trace of it"
        raise InputError(
            OPERATION,
            "the model that the trace holds" if network is held else "replay",
            got,
            expected,
            do,
        )
    if isinstance(trace, Trace) and isinstance(trace.tail, Network) and len(trace):
        _check_prediction(trace.take(np.zeros(1, np.int64)), network)
    return network


def _check_prediction(row: Trace, network: Network) -> None:
    """A hook, a buffer or a method put in later changes neither weights nor configuration: what the model gives now decides.

    Rows of files are compared with their model when they are read.
    """
    logits = network.current_logits(row.table)
    now = activate(logits, row.readout.activation, row.readout.candidates)
    apart = float(tvd(now, row.prediction)[0]) if now.shape == row.prediction.shape else 1.0
    if not apart <= TOLERANCE.trace:
        got = f"a prediction of the model {apart:.2g} (TVD) from that of the trace"
        do = (
            "the model has computed otherwise since, as with a hook: collect a trace of it as it is"
        )
        raise InputError(
            OPERATION, f"instance {row.instance[0]}", got, f"the same within {TOLERANCE.trace:g}", do
        )


def _network(replay: Any) -> Network:
    if isinstance(replay, Network):
        return replay
    require("hf", "audit with replay")
    from attnaudit.hf.network import replay_of

    return replay_of(replay)
