"""Kernels that numba compiles with less work: what Python does not call is neither wrapped nor emitted.

numba makes each function callable from Python: it compiles wrappers that unpack the arguments (hundreds of arrays, for
a kernel's tuples), optimizes the function with all that it calls, and emits machine code. A kernel that is only called
by another kernel needs none of this, because its code is linked into the caller and optimized there.

A signature is therefore compiled in one of two forms: as an *entry*, which Python calls, or as *inner* code, which is
only linked. An entry can be linked as well. If Python calls a kernel of which only inner code exists, the entry is
compiled then.
"""

from __future__ import annotations

from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler, dispatcher, errors, event, sigutils
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.typing.typeof import typeof

from skyband.kernels._shipped import Shipped
from skyband.kernels._stored_kernel import KernelCache

__all__ = ["KernelDispatcher"]

_TYPES: Any = numba_types  # their stubs lack most of them
_DISPATCHER: Any = dispatcher

# Kernels that are being compiled, outermost first. numba's lock lets one thread compile at a time.
_COMPILING: list[KernelDispatcher] = []


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Code that is linked into other libraries, and optimized and emitted there."""

    def finalize(self) -> None:
        """Link the code that this code calls, and stop there."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(self, "_reload_init"):  # not in older versions of numba
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class EntryPoint:
    """Stands for inner code where numba identifies code by the function that Python calls."""

    def __call__(self, *_: Any) -> Any:
        """Fail: there is no wrapper to call."""
        raise RuntimeError("inner code of a kernel was called from Python.")


def _pack(compiled: Any) -> Any:
    """Return inner code in a form that can be stored; None for an entry."""
    if not isinstance(compiled.library, InnerLibrary):
        return None
    compiled.fndesc.typemap = compiled.fndesc.calltypes = None  # not needed, and not always picklable
    bitcode = compiled.library._get_module_for_linking().as_bitcode()
    environments = tuple(compiled._find_referenced_environments())
    described = compiled.fndesc, compiled.environment, compiled.signature, compiled.reload_init, environments
    return compiled.library.name, bitcode, described


def _unpack(target: Any, packed: Any) -> Any:
    """Return stored inner code as numba's result of a compilation."""
    name, bitcode, (fndesc, environment, signature, reload_init, environments) = packed
    for reload in reload_init:
        reload()
    library = InnerLibrary(target.codegen(), name)
    library._final_module = llvm.parse_bitcode(bitcode)
    library._shared_module = library._final_module
    library._finalized = True
    return compiler.compile_result(
        target_context=target,
        typing_context=target.typing_context,
        library=library,
        environment=environment,
        entry_point=EntryPoint(),
        fndesc=fndesc,
        type_annotation="",
        signature=signature,
        objectmode=False,
        lifted=(),
        typing_error=None,
        call_helper=None,
        metadata=None,
        reload_init=reload_init,
        referenced_envs=environments,
    )


class _Compiler(_DISPATCHER._FunctionCompiler):  # type: ignore[misc]
    """Compiles a function as an entry or as inner code."""

    is_inner = False

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        if not self.is_inner:
            return super()._compile_core(args, return_type)
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        target = self.targetdescr.target_context
        found = compiler.compile_extra(
            self.targetdescr.typing_context,
            target,
            self.py_func,
            args=args,
            return_type=return_type,
            flags=flags,
            locals=self.locals,
            library=InnerLibrary(target.codegen(), self.py_func.__qualname__),
            pipeline_class=self.pipeline_class,
        )
        return found._replace(entry_point=EntryPoint())


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that is stored by content and compiled in the form that is needed."""

    def __init__(
        self,
        py_func: FunctionType,
        locals: Any = None,  # noqa: A002 - numba's name
        targetoptions: Any = None,
        pipeline_class: Any = compiler.Compiler,
    ) -> None:
        super().__init__(py_func, locals or {}, targetoptions or {}, pipeline_class)  # before 0.62 None is not {}
        self._compiler = _Compiler(py_func, self.targetdescr, self.targetoptions, self.locals, pipeline_class)

    def store_in(self, folder: Path, shipped: Shipped | None) -> None:
        """Load compiled code from this folder and from the installation, and store in the folder what is compiled."""
        self._cache = KernelCache(self.py_func, self.targetoptions, folder, shipped, _pack, _unpack)

    def add_overload(self, cres: Any) -> None:
        """Register compiled code; Python's calls find only entries."""
        if isinstance(cres.entry_point, EntryPoint):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for a caller, once for all constants that it passes: the optimizer sees them after linking."""
        plain = {name: _TYPES.unliteral(given) for name, given in kws.items()}
        return super().get_call_template([_TYPES.unliteral(given) for given in args], plain)

    @global_compiler_lock  # type: ignore[untyped-decorator]
    def compile(self, sig: Any) -> Any:
        """Compile the signature, or load it; as inner code if this happens while another kernel is compiled."""
        if not self._can_compile:
            raise RuntimeError("compilation disabled")
        args, return_type = sigutils.normalize_signature(sig)
        is_inner = bool(_COMPILING)
        with self._compiling_counter:
            existing = self.overloads.get(tuple(args))
            if existing is not None and (is_inner or not isinstance(existing.entry_point, EntryPoint)):
                return existing.entry_point
            if not isinstance(self._cache, KernelCache):
                return self._compile_form(args, return_type, is_inner).entry_point
            with self._cache.overload(args, self.targetctx, is_inner) as stored:
                if stored.found is not None:
                    self._cache_hits[sig] += 1
                    self._register(stored.found)
                    return stored.found.entry_point
                self._cache_misses[sig] += 1
                compiled = self._compile_form(args, return_type, is_inner)
                stored.save(compiled)
            return compiled.entry_point

    def prepare(self, *arguments: Any, is_inner: bool = False) -> None:
        """Compile the kernel for arguments of these types, or load it, without calling it.

        As inner code for a kernel that will be compiled later, maybe in another process.
        """
        signature = tuple(typeof(argument) for argument in arguments)
        if not is_inner:
            self.compile(signature)
            return
        with global_compiler_lock:
            _COMPILING.append(self)
            try:
                self.compile(signature)
            finally:
                _COMPILING.pop()

    def _compile_form(self, args: Any, return_type: Any, is_inner: bool) -> Any:
        details = {"dispatcher": self, "args": args, "return_type": return_type}
        _COMPILING.append(self)
        before, self._compiler.is_inner = self._compiler.is_inner, is_inner
        try:
            with event.trigger_event("numba:compile", data=details):
                compiled = self._compiler.compile(args, return_type)
        except errors.ForceLiteralArg as literal:
            raise literal.bind_fold_arguments(
                lambda args, kws: self._compiler.fold_argument_types(args, kws)[1]
            ) from None
        finally:
            self._compiler.is_inner = before
            _COMPILING.pop()
        if is_inner:
            self._register(compiled)
        else:
            self.add_overload(compiled)  # numba has registered it for callers
            for found in compiled._find_referenced_environments():
                compiled.codegen.set_env(found.env_name, found)
        return compiled

    def _register(self, compiled: Any) -> None:
        """Make code that numba has not compiled for execution callable by other kernels."""
        self.targetctx.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
        self.add_overload(compiled)
