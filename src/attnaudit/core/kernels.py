"""Compiled functions, their machine code kept in a folder named after the sources it comes from.

A `kernel` is called from Python, a `subroutine` from kernels alone. numba links and optimises every function, and makes its machine code,
together with all functions it calls, again at every level of calls. Here this is done once, for the kernel; that takes a third of the time.
A function that both a kernel and a subroutine call is compiled twice, as numba keeps it by the options of its caller: a kernel calls one
subroutine for a row, and leaves the rest to it.

numba keeps what it compiled by file, and takes it although a function that it calls, or a type, has since changed in another file. So the
folder's name is a digest of all files with kernels: what another version left is never read, and every checkout of one version shares it.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import config, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import register_jitable
from numpy.typing import DTypeLike

from attnaudit.core.files import user_cache

HERE = Path(__file__).parents[1]
SETTINGS: Any = config  # as numba fills it from the environment
CHUNKS = 16  # for each thread, so that rows of unlike length keep all threads busy
COMPILED = (
    b"@kernel",
    b"@subroutine",
    b"by_reference",
)  # one of these names is in every file that the compiled code depends on
LOCATORS = f"{__name__}.Locator,InTreeCacheLocator,UserWideCacheLocator"  # numba takes the first that can write


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function when it is first called, with numba's ``options``; kept on disk, in ``$NUMBA_CACHE_DIR`` where that is set.

    It runs without Python's lock, and without threads of numba's own (`over_rows`).
    """
    if function is None:
        return partial(kernel, **options)
    given = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "pipeline_class": _KernelCompiler,
        **options,
    }
    others = SETTINGS.CACHE_LOCATOR_CLASSES
    SETTINGS.CACHE_LOCATOR_CLASSES = LOCATORS
    try:
        return numba.njit(**given)(function)
    finally:
        SETTINGS.CACHE_LOCATOR_CLASSES = others


def subroutine(function: Callable[..., Any]) -> Any:
    """Compile a function into the kernels that call it; called from Python it is interpreted, and ``kernel(function)`` compiles it."""
    return register_jitable(error_model="numpy", no_cfunc_wrapper=True)(function)


def over_rows(rows_kernel: Callable[..., None], rows: int, *arguments: Any) -> None:
    """Call ``rows_kernel(first, last, *arguments)`` for chunks of all ``rows``, on as many threads as numba's settings name.

    Python's threads and not numba's: those would change how many torch uses, and take as long to compile again as the kernels themselves.
    The first chunk is done alone, in the calling thread, where the kernel is compiled.
    """
    threads = SETTINGS.NUMBA_NUM_THREADS
    ends = [0, rows]
    if threads > 1 and rows > 1:
        ends = np.unique(np.linspace(0, rows, CHUNKS * threads + 1).astype(np.int64)).tolist()
    with _interrupted_between_passes():
        rows_kernel(0, ends[1], *arguments)
    if len(ends) == 2:
        return
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(lambda first, last: rows_kernel(first, last, *arguments), ends[1:-1], ends[2:])
        )


def for_kernel(values: np.ndarray, dtype: DTypeLike = np.float64) -> np.ndarray:
    """``values`` contiguous, writable and of one type, copied only where they are not, so that numba compiles each kernel once."""
    return np.require(values, dtype, ["C", "W"])


@dataclass(frozen=True)
class Locator:
    """Where numba keeps the code of a function and how it sees that the source changed (its protocol for ``CACHE_LOCATOR_CLASSES``)."""

    folder: Path
    line: int
    source: str
    _py_file: str = field(
        default="", compare=False
    )  # numba names it in its debug information and where optimisation is off

    @classmethod
    def from_function(cls, function: Any, file: str) -> Locator | None:
        root = Path(SETTINGS.CACHE_DIR or code_folder(HERE))
        locator = cls(
            root / function.__module__,
            function.__code__.co_firstlineno,
            inspect.getsource(function),
            file,
        )
        try:
            locator.ensure_cache_path()
        except OSError:
            return None  # numba asks the next of LOCATORS
        return locator

    def ensure_cache_path(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=self.folder).close()

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self.line)


class _KernelCompiler(Compiler):
    """Compiles a kernel, and into it whatever it calls."""

    def compile_extra(self, func: Any) -> Any:
        codegen = self.state.targetctx.codegen()
        with _libraries(codegen, _KernelLibrary):
            self.state.library = codegen.create_library(func.__qualname__)
        self.state.library.enable_object_caching()
        with _libraries(codegen, _LinkedLibrary), _without_garbage_collection():
            return super().compile_extra(func)


class _Library(JITCodeLibrary):
    """Where numba collects the code of a function."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Of those defined here, lightly: a kernel is optimised as a whole once everything is linked in."""
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager(opt=1)
                passes.run(function, builder)


class _KernelLibrary(_Library):
    """A kernel: all that it calls, directly or not, is linked in once, optimised and made into machine code."""

    def finalize(self) -> None:
        self._linking_libraries = [_Once(library) for library in _all_called(self)[1:]]
        super().finalize()

    def _optimize_final_module(self) -> None:
        """As numba does, without unrolling loops: that doubles the code, takes a quarter of LLVM's time and makes nothing here faster."""
        passes, builder = self._module_passes(0)
        passes.add_loop_rotate_pass()
        passes.add_instruction_combine_pass()
        passes.add_jump_threading_pass()
        passes.run(self._final_module, builder)
        passes, builder = self._module_passes(SETTINGS.OPT)
        passes.run(self._final_module, builder)

    def _module_passes(self, level: int) -> tuple[Any, Any]:
        options = llvm.create_pipeline_tuning_options(level)
        options.loop_unrolling, options.loop_vectorization, options.slp_vectorization = (
            False,
            level > 0,
            False,
        )
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        return passes, builder


class _LinkedLibrary(_Library):
    """A function that only compiled functions call: linked into kernels as it is, without machine code of its own."""

    codegen: Any = property(lambda self: self)

    def set_env(self, env_name: str, env: Any) -> None:
        """Only machine code has an address for it."""

    def finalize(self) -> None:
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Into compiled code of others, which may call what a kernel had compiled, with all that it calls."""
        whole = self.own_module().clone()
        for library in _all_called(self)[1:]:
            whole.link_in(_Once(library)._get_module_for_linking(), preserve=True)
        return whole

    def own_module(self) -> Any:
        """Its code alone, which several may bring along."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        return self._final_module

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        with _libraries(codegen, JITCodeLibrary):  # a kernel that this one calls: its code was kept
            return JITCodeLibrary._unserialize(codegen, state)


@dataclass(frozen=True)
class _Once:
    """A library as a kernel links it: its code alone, what it calls being linked too."""

    library: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def _get_module_for_linking(self) -> Any:
        return (
            self.library.own_module()
            if isinstance(self.library, _LinkedLibrary)
            else self.library._get_module_for_linking()
        )


def _all_called(kernel: Any) -> list[Any]:
    """``kernel`` and all that it is to link, callers first: LLVM drops what nobody calls yet."""
    found: dict[Any, None] = {}

    def visit(library: Any) -> None:
        if library not in found:
            for called in (
                library._linking_libraries
                if library is kernel or isinstance(library, _LinkedLibrary)
                else ()
            ):
                visit(called)
            found[library] = None

    visit(kernel)
    return list(found)[::-1]


@contextmanager
def _libraries(codegen: Any, kind: type[JITCodeLibrary]) -> Iterator[None]:
    """Within it numba puts what it compiles into libraries of this ``kind``."""
    before, codegen._library_class = codegen._library_class, kind
    try:
        yield
    finally:
        codegen._library_class = before


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """numba makes millions of objects that live until it is done; searching them for garbage again and again takes a sixth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _interrupted_between_passes() -> Iterator[None]:
    """Within it Ctrl-C takes effect at the end, or when the next pass of the compiler begins.

    Inside a callback from LLVM, Python would print the KeyboardInterrupt and drop it.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[Any] = []

    def act() -> None:
        if received:
            handler(*received.pop())

    signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        with event.install_listener("numba:run_pass", _Starts(act)):
            yield
    finally:
        signal.signal(signal.SIGINT, handler)
    act()


@cache
def code_folder(sources: Path) -> Path:
    """The folder of what is compiled from the kernels below ``sources``."""
    texts = (path.read_bytes() for path in sorted(sources.rglob("*.py")))
    digest = hashlib.sha256(
        b"\0".join(text for text in texts if any(name in text for name in COMPILED))
    )
    return user_cache() / f"kernels-{digest.hexdigest()[:16]}"


def is_compiled(function: Any) -> bool:
    """Whether a kernel has been compiled, by this process or by an earlier one that kept its code."""
    folder = Path(SETTINGS.CACHE_DIR or code_folder(HERE)) / function.__module__
    return bool(function.signatures) or any(folder.glob(f"*.{function.__name__}-*.nbi"))


@contextmanager
def compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Within it ``tell`` is called whenever a function is about to be compiled, and not where its code was kept."""
    with event.install_listener("numba:compile", _Starts(tell)):
        yield


class _Starts(event.Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def on_start(self, event: Any) -> None:
        self.tell()

    def on_end(self, event: Any) -> None:
        """Only the start of a compilation is reported."""
