"""Nothing that is read is ever run: no module unpickles, evaluates or loads what came from outside.

The source is searched, module by module. What Spark itself does to bring our functions to its workers is Spark's.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import skyband

SOURCE = Path(skyband.__file__).parent
FORBIDDEN = {"_pickle", "cloudpickle", "code", "dill", "joblib", "jsonpickle", "marshal", "pickle", "runpy", "shelve"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
METHODS = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "unsafe_load_all", "full_load_all", "literal_eval"}
COMMANDS = {"system", "popen", "execv", "execve", "execvp", "spawnv", "spawnl"}
# Modules that load others of ours by name; the names are those of a table in the same file.
LOADERS = {
    "queries/families.py",
    "spark/__init__.py",
    "spark/worker_daemon.py",
    "spark/requirements.py",
    "spark/startup/sitecustomize.py",
    "topk/algorithms/__init__.py",
}
STARTERS = {
    "java.py",
    "spark/ivy.py",
    "precompile.py",
    "topk/compile_ahead.py",
}  # start Java, or this Python; arguments in a list
BECOMING = {"spark/worker_daemon.py": "calls os.execv"}  # Spark's own daemon, with the arguments that Spark gave it


def found_in(text):
    """What a module does that could run data, each with its line."""
    return sorted(f"{node.lineno}: {what}" for node in ast.walk(ast.parse(text)) for what in _wrong(node))


def _wrong(node):
    if isinstance(node, ast.Import):
        yield from (f"imports {name.name}" for name in node.names if name.name.partition(".")[0] in FORBIDDEN)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN:
        yield f"imports from {node.module}"
    elif isinstance(node, ast.Call):
        yield from _wrong_call(node)


def _wrong_call(node):
    given = {word.arg: word.value for word in node.keywords}
    if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
        yield f"calls {node.func.id}"
    if isinstance(node.func, ast.Attribute):
        whose, name = ast.unparse(node.func.value), node.func.attr
        if name in METHODS:
            yield f"calls {name}"
        if whose == "yaml" and name in ("load", "load_all", "compose", "parse", "scan") and not _is_safe(node, given):
            yield f"calls yaml.{name} without a safe loader"
        if whose == "os" and name in COMMANDS:
            yield f"calls os.{name}"
    for word in ("allow_pickle", "shell"):
        if word in given and not (isinstance(given[word], ast.Constant) and given[word].value is False):
            yield f"says {word}="


def _is_safe(node, given):
    """Whether YAML is read by the safe loader, or by ours, which is made from it."""
    loader = given.get("Loader", node.args[1] if len(node.args) > 1 else None)
    return loader is not None and ast.unparse(loader) in ("yaml.SafeLoader", "_Loader")


MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}


def test_there_is_something_to_search():
    assert {"snapshot.py", "jobs/mailbox.py", "workload_file/tree.py", "jobs/journal.py"} <= MODULES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_no_module_runs_what_it_reads(name):
    found = found_in(MODULES[name].read_text(encoding="utf-8"))
    assert [what for what in found if not what.endswith(BECOMING.get(name, "\n"))] == []


def test_modules_are_loaded_by_name_and_programs_started_in_few_places():
    texts = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    assert {name for name, text in texts.items() if "import_module(" in text} == LOADERS
    assert {name for name, text in texts.items() if "subprocess" in text} == STARTERS


def test_our_loader_of_yaml_is_a_safe_one():
    import yaml

    from skyband.workload_file.tree import _Loader

    assert issubclass(_Loader, yaml.SafeLoader)
    assert not issubclass(_Loader, yaml.FullLoader | yaml.UnsafeLoader)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "def f():\n    import marshal",
        "from dill import loads",
        "import cloudpickle as data",
        "eval(text)",
        "exec(text, {})",
        "compile(text, 'x', 'exec')",
        "__import__(name)",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.load(text, yaml.UnsafeLoader)",
        "yaml.unsafe_load(text)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=wanted)",
        "pd.read_pickle(path)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
    ],
)
def test_the_search_finds_what_it_is_for(text):
    assert len(found_in(text)) == 1


@pytest.mark.parametrize(
    "text",
    ["json.loads(text)", "re.compile(text)", "yaml.load(text, Loader=yaml.SafeLoader)", "x.load(y)"],
)
def test_the_search_lets_the_rest_alone(text):
    assert found_in(text) == []
