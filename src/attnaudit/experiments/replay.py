"""Check that an audit replays the model from which the trace was collected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core import InputError, require
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import activate, tvd
from attnaudit.trace import Trace, trace_metadata
from attnaudit.trace.tails import Network


def network_of(trace: Trace | str | Path, replay: Any = None) -> Network | None:
    """Return the model of a trace after checking it.

    Args:
        trace: A trace, or its path.
        replay: A `Network`, a model of the transformers library or its folder; by default the
            model that the trace holds.

    Returns:
        The model, or None if the trace stores its tail and no model is given.

    Raises:
        InputError: If the trace was collected from another model, or needs no model.
    """
    held = trace.tail if isinstance(trace, Trace) and isinstance(trace.tail, Network) else None
    if replay is None or (held is not None and replay is held.model):
        network = held
    elif isinstance(replay, Network):
        network = replay
    else:
        # transformers is an optional dependency, needed only when a model is given.
        require("hf", "audit with replay")
        from attnaudit.hf.network import replay_of

        network = replay_of(replay, _about_model(trace).get("output"))
    if network is None:
        return None
    known = _about_model(trace).get("fingerprint")
    if known is None and network is held:
        return network
    if not isinstance(known, str):
        raise InputError(
            "audit",
            "replay",
            "a model for a trace that names none",
            "a trace that names its model",
            "leave it out",
        )
    # The hash is computed again, since weights may have been trained after the collection.
    current = network.current_fingerprint()
    if current != known:
        raise InputError(
            "audit",
            "the model that the trace holds" if network is held else "replay",
            f"a model with the fingerprint {current[:12]}…",
            f"the model {known[:12]}… that the trace was collected from",
            "it is another model, or its weights or its configuration were changed since: collect "
            "a trace of it",
        )
    # One row is enough for a spot check: each costs a pass through the model.
    if held is not None and isinstance(trace, Trace) and len(trace):
        _check_prediction(trace.take(np.zeros(1, np.int64)), network)
    return network


def _about_model(trace: Trace | str | Path) -> Mapping[str, Any]:
    """Return what a trace says of its model."""
    model = (trace.metadata if isinstance(trace, Trace) else trace_metadata(trace)).get("model")
    return model if isinstance(model, dict) else {}


def _check_prediction(row: Trace, network: Network) -> None:
    """Check that the model still predicts what the trace recorded.

    A hook, buffer or method added later changes neither weights nor configuration, so it leaves the
    fingerprint as it was. Rows from files are checked when they are read.
    """
    logits = network.current_logits(row.table)
    now = activate(logits, row.readout.activation, row.readout.candidates)
    change = float(tvd(now, row.prediction)[0]) if now.shape == row.prediction.shape else 1.0
    # Negated, so that a NaN is refused too.
    if not change <= TOLERANCE.trace:
        raise InputError(
            "audit",
            f"instance {row.instance[0]}",
            f"a prediction of the model {change:.2g} (TVD) from that of the trace",
            f"the same within {TOLERANCE.trace:g}",
            "the model has computed otherwise since, as with a hook: collect a trace of it as it "
            "is",
        )
