"""The digest of a kernel changes with everything its machine code depends on, and with nothing else."""

from __future__ import annotations

import sys
import types as python_types

import numpy as np
import pytest

from skyband.kernels import _digest
from skyband.kernels._digest import code_digest, signature_text

BASE = '''
from typing import NamedTuple
import numpy as np
import skyband.sample_constants as constants
LIMIT = 3
TABLE = np.array([1.0, 2.0])
class Pair(NamedTuple):
    a: int
    b: int
def deepest(x):
    return x + LIMIT
def inner(x):
    return deepest(x) * 2
def outer(x):
    """Say something."""
    pair = Pair(x, 1)
    return inner(pair.a) + TABLE[0] + constants.SHARE + np.inf
def other(x):
    return x - 1
'''


@pytest.fixture
def digest_of(monkeypatch):
    """Digest of one function of a module with this text."""

    def digesting(text, name="outer", share=7, options=None):
        constants = python_types.ModuleType("skyband.sample_constants")
        constants.SHARE = share
        monkeypatch.setitem(sys.modules, constants.__name__, constants)
        monkeypatch.setattr(sys.modules["skyband"], "sample_constants", constants, raising=False)
        module = python_types.ModuleType("skyband.sample")
        exec(compile(text, "sample.py", "exec"), module.__dict__)
        return code_digest(getattr(module, name), options or {"nopython": True})

    return digesting


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x + LIMIT", "return x - LIMIT"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("LIMIT = 3", "LIMIT = True"),
        ("2.0])", "2.5])"),
        ("[1.0, 2.0]", "[1, 2]"),
        ("    a: int\n    b: int", "    b: int\n    a: int"),
        ("deepest(x) * 2", "deepest(x) * 3"),
        ("np.inf", "np.pi"),
        ("Pair(x, 1)", "Pair(x, 2)"),
    ],
)
def test_what_the_machine_code_depends_on(digest_of, old, new):
    assert BASE.count(old) == 1
    assert digest_of(BASE) != digest_of(BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x - 1", "return x - 2"),
        ("Say something.", "Say something else."),
        ("def inner(x):", "\n# moved by two lines\n\ndef inner(x):"),
    ],
)
def test_what_it_does_not_depend_on(digest_of, old, new):
    assert BASE.count(old) == 1
    assert digest_of(BASE) == digest_of(BASE.replace(old, new))


def test_constants_of_other_modules_and_options(digest_of):
    assert digest_of(BASE) == digest_of(BASE)
    assert digest_of(BASE) != digest_of(BASE, share=8)
    assert digest_of(BASE) != digest_of(BASE, options={"nopython": True, "forceinline": True})


def test_an_unknown_value_makes_it_depend_on_all_sources(digest_of, monkeypatch):
    text = BASE.replace("LIMIT = 3", "class Odd:\n    limit = 3\nLIMIT = Odd()")
    monkeypatch.setattr(_digest, "_all_sources", lambda: "one")
    first = digest_of(text)
    monkeypatch.setattr(_digest, "_all_sources", lambda: "two")
    assert digest_of(text) != first
    monkeypatch.setattr(_digest, "_all_sources", lambda: None)
    assert digest_of(text) is None


def test_every_kernel_of_the_library_has_a_digest_of_its_own_code(monkeypatch):
    """No kernel falls back to the text of all sources, which every edit changes."""
    import importlib
    import pkgutil

    import skyband
    from skyband.kernels._dispatcher import KernelDispatcher

    monkeypatch.setattr(_digest, "_all_sources", lambda: None)
    found = {}
    for package in ("", "topk.", "aggregate.", "incomplete.", "uncertain."):
        folder = importlib.import_module(f"skyband.{package}kernels")
        for entry in pkgutil.iter_modules(folder.__path__, f"skyband.{package}kernels."):
            module = importlib.import_module(entry.name)
            for name, value in vars(module).items():
                if isinstance(value, KernelDispatcher) and value.py_func.__module__ == entry.name:
                    found[f"{entry.name}.{name}"] = code_digest(value.py_func, value.targetoptions)
    assert len(found) > 200
    assert [name for name, digest in found.items() if digest is None] == []
    assert skyband is not None


def test_signatures_of_equal_names_differ():
    from typing import NamedTuple

    from numba import typeof

    def pair(first, second):
        return NamedTuple("Pair", [(first, float), (second, float)])

    one, two = pair("a", "b")(1.0, 2.0), pair("x", "y")(1.0, 2.0)
    frozen = np.zeros(2)
    frozen.setflags(write=False)
    values = [
        one,
        two,
        (1.0, 2.0),
        (1, 2),
        np.zeros(2),
        np.zeros(2, np.int64),
        np.zeros((2, 2)),
        np.zeros(4)[::2],
        frozen,
    ]
    texts = [signature_text((typeof(value),)) for value in values]
    assert len(set(texts)) == len(texts)
