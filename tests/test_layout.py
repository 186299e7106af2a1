"""The plan of the house: where things are, one name for one class, and one place that knows the families."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from itertools import takewhile
from pathlib import Path

import pytest

import skyband
from skyband.queries.families import FAMILIES

SOURCE = Path(skyband.__file__).parent
ROOT = Path(__file__).parents[1]
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
QUERIES = {family.query for family in FAMILIES.values()}
REGISTRY = "queries/families.py"


def classes():
    found = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return found


def test_a_public_name_is_that_of_one_class():
    twice = {name: places for name, places in classes().items() if len(places) > 1}
    # Each family has its Monitor: users find it in the family's package.
    assert sorted(twice.pop("Monitor")) == [f"{name}/monitor.py" for name in sorted(FAMILIES)]
    assert sorted(twice.pop("FrameMonitor")) == [f"{name}/frame_monitor.py" for name in sorted(FAMILIES)]
    # To be renamed with the next change of kernels: a rename alone would drop all compiled code.
    assert twice.pop("Answers", []) in ([], ["data/answers.py", "kernels/stream.py"])
    assert twice == {}


@pytest.mark.parametrize("part", ["__init__", "query", "monitor", "plan", "shard", "spark", "explain"])
def test_families_have_the_same_files(part):
    exempt = {("aggregate", "plan")}  # beside the reducer that it is for
    missing = {name for name in FAMILIES if f"{name}/{part}.py" not in TREES}
    assert {(name, part) for name in missing} <= exempt


def asks_for_family(node):
    """Whether the node decides something by a query's family: its class, or the family's name."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        return any(isinstance(part, ast.Name) and part.id in QUERIES for part in ast.walk(node.args[1]))
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        named = any(isinstance(side, ast.Constant) and side.value in FAMILIES for side in sides)
        return named and any(isinstance(side, ast.Attribute) and side.attr == "family" for side in sides)
    return False


def test_only_the_registry_knows_the_families():
    asking = {name for name, tree in TREES.items() if any(map(asks_for_family, ast.walk(tree)))}
    assert asking - {REGISTRY} == set()


@pytest.mark.parametrize("text", ["isinstance(q, TopK)", "isinstance(q, (int, UncertainTopK))", "q.family == 'topk'"])
def test_what_asks_for_a_family_is_found(text):
    assert any(map(asks_for_family, ast.walk(ast.parse(text))))


def names_of(line):
    """The files and folders that a line of the map begins with."""
    return list(takewhile(lambda word: word.endswith(".py") or "/" in word or (ROOT / word).is_dir(), line.split()))


def test_the_map_shows_the_tree():
    """Every package and module of the first level is on CONTRIBUTING's map, and what is on it exists."""
    (drawn,) = re.findall(r"```text\nsrc/skyband/\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
    lines = drawn.splitlines()
    named = {name.rstrip("/") for line in lines if line.startswith("  ") for name in names_of(line)}
    there = {path.name for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert named == there - {"__init__.py", "__pycache__"}
    below = [name for line in lines if not line.startswith("  ") for name in names_of(line)]
    assert len(below) > 5
    assert [name for name in below if not (ROOT / name).exists()] == []
