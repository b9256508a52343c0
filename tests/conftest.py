"""Array shapes are checked at run time in the tests, where functions and classes state some.

Of the calls that a test makes of a function, the first are checked.
"""

import gc
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests import pages, threads, typecheck

SOURCE = Path(__file__).parents[1] / "src/attnaudit"


EACH_OPERATION = SOURCE / "torch/capture.py"  # called at every operation of torch


def _modules_with_shapes():
    """Modules that the hook is to wrap, which makes calls dear; a package's own file would stand for all below it."""
    files = [
        path
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py" and path != EACH_OPERATION
    ]
    files = [path for path in files if "jaxtyping" in path.read_text()]
    return [
        ".".join(("attnaudit", *path.relative_to(SOURCE).with_suffix("").parts)) for path in files
    ]


gc.disable()  # until all is imported: collecting among modules that stay takes 40 % of a collection's CPU seconds
threads.take_one()
typecheck.check_shapes_alone()
install_import_hook(_modules_with_shapes(), f"{typecheck.__name__}.checked")
settings.register_profile("attnaudit", deadline=None)
settings.load_profile("attnaudit")


@pytest.fixture(autouse=True)
def first_calls():
    typecheck.count_anew()


def pytest_collection_modifyitems(items):
    """Tests of a cluster come first: while they wait, as they mostly do, others use the cores."""
    items.sort(key=lambda item: item.path.name != "test_ray_pool.py")


def pytest_collection_finish():
    """What was imported stays: no later garbage collection looks at it again, and collections are rarer than Python's own."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session")
def real_data():
    """The folder of real corpora: `ATTNAUDIT_DATA`, or beside the checkout."""
    beside = Path(__file__).parents[2] / "shared/data"
    folder = Path(os.environ.get("ATTNAUDIT_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}")
    return folder


@pytest.fixture
def quick_pages():
    with pages.summaries_as_pages():
        yield


@pytest.fixture(scope="session")
def one_registry():
    """Graphs in ONNX at half the cost: what the exporter collects anew for every graph, and never changes, is collected once.

    These are the functions of torch that have a form in ONNX, from their sources, and those that torch takes apart. An export reads them,
    and adds only what `torch.onnx.export` is given. Graphs on the way to the last one are compiled when they are called, if they are.
    """
    from torch._export import utils
    from torch.export import decomp_utils, exported_program
    from torch.fx._lazy_graph_module import _use_lazy_graph_module
    from torch.onnx._internal.exporter import _decomp
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    taken_apart = cache(utils._collect_all_valid_cia_ops)
    with pytest.MonkeyPatch.context() as patch, _use_lazy_graph_module(True):
        patch.setattr(
            ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib))
        )
        patch.setattr(
            _decomp, "get_onnx_implemented_overloads", cache(_decomp.get_onnx_implemented_overloads)
        )
        for module in (utils, decomp_utils, exported_program):
            patch.setattr(module, "_collect_all_valid_cia_ops", taken_apart)
        yield
