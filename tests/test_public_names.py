"""What users see is documented: every public name says what it does, and classes and functions show it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import skyband as sb

PUBLIC = {name: getattr(sb, name) for name in sb.__all__}


def methods(cls):
    """The public methods and properties that the class itself defines."""
    for name, value in vars(cls).items():
        if not name.startswith("_") and (callable(value) or isinstance(value, property | classmethod | staticmethod)):
            yield f"{cls.__name__}.{name}", value


DOCUMENTED = {
    **PUBLIC,
    **{full: value for cls in PUBLIC.values() if inspect.isclass(cls) for full, value in methods(cls)},
}


def test_the_contract_is_there():
    contract = {"TopK", "Workload", "Monitor", "replay", "algorithms", "SkybandError"}
    assert contract <= set(sb.__all__)
    assert sb.__all__ == sorted(sb.__all__)
    assert set(sb.__all__) <= set(dir(sb))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_a_docstring(name):
    doc = inspect.getdoc(DOCUMENTED[name])
    assert doc
    assert doc != inspect.getdoc(object)


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if inspect.isclass(v) or inspect.isfunction(v)])
def test_classes_and_functions_show_an_example(name):
    # The errors share the example of their root: one is enough to show how they are caught.
    shown = sb.SkybandError if name.endswith("Error") else PUBLIC[name]
    assert ">>> " in inspect.getdoc(shown)


def test_every_error_is_a_skyband_error():
    errors = [value for value in PUBLIC.values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len(errors) >= 5
    assert all(issubclass(error, sb.SkybandError) for error in errors)
    builtin = (ValueError, ImportError, RuntimeError)
    assert all(issubclass(error, builtin) for error in errors if error is not sb.SkybandError)


def test_every_module_says_what_it_is_for():
    found = [info.name for info in pkgutil.walk_packages(sb.__path__, "skyband.") if not info.name.endswith("__main__")]
    assert len(found) > 10
    assert [name for name in found if not importlib.import_module(name).__doc__] == []


def test_names_in_all_exist():
    for info in pkgutil.walk_packages(sb.__path__, "skyband."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            assert [name for name in getattr(module, "__all__", []) if not hasattr(module, name)] == [], info.name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = sb.nothing


@pytest.mark.parametrize("first", ["sb.Monitor(sb.TopK(k=1, size=2))", "sb.replay", "import skyband.topk.algorithms"])
def test_algorithms_can_be_called_whatever_came_before(first):
    program = f"import skyband as sb\n{first}\nassert 'mintopk' in sb.algorithms()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_algorithms_can_be_called_first():
    program = (
        "import skyband as sb\nprint('|'.join(sb.algorithms()))\nsb.Monitor(sb.TopK(k=1, size=2))\nsb.algorithms()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"naive", "mintopk"} <= set(done.stdout.strip().split("|"))
