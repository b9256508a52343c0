"""Array shapes are checked at run time in the tests, in the modules that state some, outside those with compiled kernels."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests import threads, typecheck

SOURCE = Path(__file__).parents[1] / "src" / "attnaudit"


EACH_OPERATION = [SOURCE / "hf" / "capture.py", SOURCE / "hf" / "importance" / "projection.py"]  # called at every operation of torch
KERNELS = [path for path in sorted(SOURCE.rglob("*.py")) if any(word in path.read_text() for word in ("@kernel", "@subroutine"))]


def _modules_with_shapes() -> list[str]:
    """Modules that the hook is to wrap, which makes calls dear; a package's own file would stand for all below it."""
    files = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" and path not in (*KERNELS, *EACH_OPERATION)]
    files = [path for path in files if "jaxtyping" in path.read_text()]
    return [".".join(("attnaudit", *path.relative_to(SOURCE).with_suffix("").parts)) for path in files]


gc.disable()  # until all is imported: collecting among modules that stay takes 40 % of a collection's CPU seconds
threads.take_one()
install_import_hook(_modules_with_shapes(), f"{typecheck.__name__}.checked")
settings.register_profile("attnaudit", deadline=None)
settings.load_profile("attnaudit")


def pytest_collection_finish() -> None:
    """What was imported stays: no later garbage collection looks at it again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real corpora beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}")
    return folder


@pytest.fixture(scope="session")
def one_registry() -> Iterator[None]:
    """The functions of torch that have a form in ONNX, which the exporter collects from their sources for every graph, collected once.

    An export reads them, and adds only what `torch.onnx.export` is given.
    """
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield
