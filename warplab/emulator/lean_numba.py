"""Numba without the work that the interpreter's parts do not need, for compilation.py.

A part is one function with several hundred helpers, which nobody else calls. As it comes, Numba links into each helper
all that it calls, optimises it and makes code of it, before the caller does so again; it resolves each operation's
types anew at each place; it looks for closures, literals and array expressions, which helpers have not; and it checks
its own representation after each pass. None of that changes the code.
Helpers are kept on disk, so that parts share them and a changed line compiles anew only what may depend on it.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import secrets
import sys
from collections.abc import Container, Iterator
from typing import Any, Protocol

import numba
from llvmlite import binding
from numba import types
from numba.core import codegen, event, serialize
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import DefaultPassBuilder, compile_result
from numba.core.compiler_machinery import PassManager
from numba.core.dispatcher import Dispatcher
from numba.core.environment import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import InlineOverloads, NopythonRewrites, NoPythonSupportedFeatureValidation
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    RewriteDynamicRaises,
    WithLifting,
)

_KNOWN = "0.68."  # the Numba whose insides this knows
_WITHOUT_REFERENCES = (types.Number, types.Boolean, types.Callable)
_TOGETHER = 26  # modules of some 700
# Passes that change nothing of helpers, which have no closures, literals, arrays or exceptions
_NOT_NEEDED = (
    WithLifting,
    InlineClosureLikes,
    RewriteDynamicRaises,
    MakeFunctionToJitFunction,
    InlineInlinables,
    FindLiterallyCalls,
    LiteralUnroll,
    LiteralPropagationSubPipelinePass,
    InlineOverloads,
    NopythonRewrites,
    NoPythonSupportedFeatureValidation,
)


class Library(codegen.JITCodeLibrary):
    """Of a helper, which is only linked, once, into the part; or of a part, which is compiled as Numba does it."""

    wholes: frozenset[str] = frozenset()  # names of the functions that are parts
    kept = b""  # the bitcode of the last part before it was optimised

    def _optimize_functions(self, ll_module: Any) -> None:
        if self.name in self.wholes:
            super()._optimize_functions(ll_module)

    def finalize(self) -> None:
        if self.name in self.wholes:
            callees = _callees(self)
            modules = [one._final_module.clone() for one in callees if one is not rtsys.library]
            if modules:
                self._final_module.link_in(_for_linking(_merged(modules)))
            if len(modules) < len(callees):
                self._final_module.link_in(_for_linking(rtsys.library._final_module.clone()))
            self._linking_libraries.clear()
            super().finalize()
        else:
            self._finalize_dynamic_globals()
            self._finalized = True

    def _optimize_final_module(self) -> None:
        Library.kept = self._final_module.as_bitcode()
        super()._optimize_final_module()


def _callees(library: Any, beyond: Container[Any] = ()) -> list[Any]:
    """What a library calls, directly or not, callers first: LLVM links what the module already names.

    What is called by those of `beyond` is left out.
    """
    order: list[Any] = []
    seen = set()

    def visit(one: Any) -> None:
        for callee in one._linking_libraries:
            if callee not in seen:
                seen.add(callee)
                if callee in beyond:
                    order.append(callee)
                else:
                    visit(callee)
        order.append(one)

    visit(library)
    return order[-2::-1]


def _merged(modules: list[Any]) -> Any:
    """One module of many, which are used up. LLVM goes through all that it links into each time, so few at a time."""
    while len(modules) > 1:
        groups = [modules[first : first + _TOGETHER] for first in range(0, len(modules), _TOGETHER)]
        for first, *others in groups:
            for other in others:
                first.link_in(other)
        modules = [group[0] for group in groups]
    return modules[0]


def _for_linking(module: Any) -> Any:
    """A module whose functions may be dropped where everything that calls them has them inlined."""
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == "external":
            function.linkage = "linkonce_odr"
    return module


class Store(Protocol):
    """Where compiled helpers are kept, by the names of a module and of a function in it."""

    def read(self, module: str, function: str) -> bytes | None:
        """What is kept, if it is there and whole."""

    def write(self, module: str, function: str, content: bytes) -> None:
        """Keep a helper."""


_places: dict[Any, tuple[str, str, Any]] = {}  # of a helper's library: its module, its name and its types


class _Kept:
    """A helper's compiled forms on disk; Numba's own cache would keep those of its callees with it."""

    def __init__(self, dispatcher: Dispatcher, store: Store) -> None:
        self._function, self._store = dispatcher.py_func, store

    def _name(self, sig: Any) -> str:
        """A helper has a compiled form for each set of types that it is called with."""
        return f"{self._function.__name__}{sig}"

    def save_overload(self, sig: Any, result: Any) -> None:
        library = result.library
        callees, module = [], library._final_module.clone()
        for callee in _callees(library, beyond=_places):
            if callee in _places:
                callees.append(_places[callee])
            elif callee is not rtsys.library:  # of Numba's: compiled into the helper
                module.link_in(_for_linking(callee._final_module.clone()))
        module_name, name = self._function.__module__, self._function.__name__
        if not isinstance(getattr(sys.modules[module_name], name, None), Dispatcher):
            return  # made by a function: nobody could find it again
        result.fndesc.typemap = result.fndesc.calltypes = None
        content = (result.fndesc, result.signature, callees, module.as_bitcode())
        self._store.write(module_name, self._name(sig), serialize.dumps(content))
        _places[library] = module_name, name, sig

    def load_overload(self, sig: Any, context: Any) -> Any:
        kept = self._store.read(self._function.__module__, self._name(sig))
        if kept is None:
            return None
        descriptor, signature, callees, bitcode = pickle.loads(kept)
        library = context.codegen().create_library(self._function.__name__)
        library._final_module = binding.parse_bitcode(bitcode)
        for module, name, args in callees:
            callee = getattr(sys.modules[module], name)
            callee.compile(args)
            library._linking_libraries.append(callee.overloads[args].library)
        library._linking_libraries.append(rtsys.library)
        library.finalize()
        environment = Environment.from_fndesc(descriptor)
        executable = context.get_executable(library, descriptor, environment)
        _places[library] = self._function.__module__, self._function.__name__, sig
        return compile_result(
            typing_context=context.typing_context,
            target_context=context,
            library=library,
            environment=environment,
            entry_point=executable,
            fndesc=descriptor,
            signature=signature,
            objectmode=False,
        )


@contextlib.contextmanager
def lean(wholes: frozenset[str], helpers_in: str, store: Store) -> Iterator[None]:
    """Within, Numba compiles parts of these names so, with helpers of modules whose names begin with `helpers_in`.

    A Numba whose insides are not known here compiles as it comes, which takes minutes.
    """
    if not numba.__version__.startswith(_KNOWN):
        yield
        return
    jit: Any = cpu_target.target_context.codegen()
    set_environment = jit.set_env

    def set_env(name: str, environment: Any) -> None:
        if jit._engine.is_symbol_defined(name):  # helpers have no code, so no place for theirs, and need none
            set_environment(name, environment)

    resolve = BaseFunction.get_call_type
    known: dict[Any, Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = (id(self), args) if not kws else None  # types live as long as the context
        if key is None or key not in known:
            signature = resolve(self, context, args, kws)
            if key is None:
                return signature
            known[key] = signature, self  # so that its id is no other's
        return known[key][0]

    identify = FunctionIdentity.__dict__["from_function"]

    def from_function(cls: Any, function: Any) -> FunctionIdentity:
        identity = identify.__func__(cls, function)
        if identity.modname.startswith(helpers_in) and "<locals>" not in identity.func_qualname:
            # One function has one name, whichever process compiles it
            identity.unique_name, identity.unique_id = f"{identity.func_qualname}$0", 0
        return identity

    define = DefaultPassBuilder.define_nopython_pipeline

    def define_pipeline(state: Any, name: str = "nopython") -> PassManager:
        manager = define(state, name)
        if state.func_id.modname.startswith(helpers_in):
            manager.passes = [one for one in manager.passes if one[0] not in _NOT_NEEDED]
        return manager

    count = NRTContext._call_incref_decref

    def count_references(self: Any, builder: Any, kind: Any, value: Any, function: str) -> None:
        if not isinstance(kind, _WITHOUT_REFERENCES):
            count(self, builder, kind, value, function)

    context: Any = cpu_target.target_context
    size_of = context.get_abi_sizeof
    sizes: dict[str, int] = {}  # LLVM parses a module for each question

    def get_abi_sizeof(kind: Any) -> int:
        name = str(kind)
        if name not in sizes:
            sizes[name] = size_of(kind)
        return sizes[name]

    dispatchers: list[Any] = [
        function
        for name, module in list(sys.modules.items())
        if name.startswith(helpers_in)
        for function in vars(module).values()
        if isinstance(function, Dispatcher)
    ]
    own_caches = [dispatcher._cache for dispatcher in dispatchers]
    for dispatcher in dispatchers:
        dispatcher._cache = _Kept(dispatcher, store)
    passes: Any = PassManager
    functions: Any = BaseFunction
    identities: Any = FunctionIdentity
    builders: Any = DefaultPassBuilder
    references: Any = NRTContext
    enforcing, broadcast = passes._ENFORCING, event.broadcast
    Library.wholes = wholes
    # What is compiled of Numba's own has a name that no other process gives
    identities._unique_ids = itertools.count(secrets.randbits(48) << 12)
    identities.from_function = classmethod(from_function)
    jit._library_class, jit.set_env = Library, set_env
    functions.get_call_type, passes._ENFORCING = get_call_type, False
    builders.define_nopython_pipeline, context.get_abi_sizeof = staticmethod(define_pipeline), get_abi_sizeof
    references._call_incref_decref = count_references
    event.broadcast = lambda _: None  # nobody listens but Numba's own timers
    try:
        yield
    finally:
        del jit._library_class, jit.set_env, context.get_abi_sizeof
        builders.define_nopython_pipeline = staticmethod(define)
        functions.get_call_type, passes._ENFORCING = resolve, enforcing
        references._call_incref_decref = count
        event.broadcast = broadcast
        identities.from_function = identify
        for dispatcher, cache in zip(dispatchers, own_caches, strict=True):
            dispatcher._cache = cache
