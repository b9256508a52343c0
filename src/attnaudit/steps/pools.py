"""Pools by name."""

from contextlib import AbstractContextManager, nullcontext

from attnaudit.core import InputError
from attnaudit.steps.pool import SERIAL, Pool
from attnaudit.steps.ray_pool import RayPool

POOLS = ("local", "ray")


def pool_of(name: str = "local", address: str | None = None) -> AbstractContextManager[Pool]:
    """Return a pool by its name, to be used in a ``with`` statement.

    Args:
        name: ``local``, or ``ray`` for a cluster.
        address: HOST:PORT of the cluster's head; None: a cluster of this machine alone.

    Raises:
        InputError: If the name or the address is none.
        RunError: If nobody listens at the address.
    """
    if name not in POOLS:
        raise InputError("choose a pool", "--engine", repr(name), f"one of {', '.join(POOLS)}")
    if name == "ray":
        return RayPool(address)
    if address is not None:
        raise InputError("choose a pool", f"--address {address}", "the pool local", "--engine ray")
    return nullcontext(SERIAL)
