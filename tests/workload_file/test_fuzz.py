"""Examples of workload files with random damage: a file, or problems with line and column; never another error."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import yaml

import skyband as sb
from tests.workload_file.files import FAMILIES, FULL, SHORT

ROOT = Path(__file__).parents[2]
EXAMPLES = [SHORT, FULL, FAMILIES, *(path.read_text() for path in sorted((ROOT / "examples").rglob("*.yaml")))]
SCRAPS = [
    *[
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        "- ",
        ",",
        "|",
        ">",
        "&a ",
        "*a",
        "!!python/object:os.system ",
        "!x ",
        "#",
        "%",
        "@",
    ],
    *["\t", "\n", "\n\n", "  ", "'", '"', "\\", "---\n", "...\n", "<<: *a", "? ", "~", "null", "true", ".inf", ".nan"],
    *[
        "1e999",
        "-1",
        "0x",
        "9" * 400,
        "10 hours",
        "P1D",
        "${HOME}",
        "${",
        "${NO_SUCH}",
        "$",
        "\x00",
        "\ufeff",
        "é",
        "🚀",
    ],
    *["2024-01-01", "12:30:00", "queries:", "streams:", "sinks:", "engine:", "type: topk", "sql:", "k: 0", "size: all"],
]


def damaged(text, random):
    """Change some characters, lines or values of a text."""
    for _ in range(random.randint(1, 4)):
        at, way = random.randrange(len(text) + 1), random.randrange(6)
        lines = text.split("\n")
        one = random.randrange(len(lines))
        if way == 0:
            text = text[:at] + random.choice(SCRAPS) + text[at:]
        elif way == 1:
            text = text[:at] + text[at + random.randrange(12) :]
        elif way == 2:
            lines.insert(random.randrange(len(lines)), lines[one])
            text = "\n".join(lines)
        elif way == 3:
            lines[one] = " " * random.randrange(4) + lines[one]
            text = "\n".join(lines)
        elif way == 4 and ":" in lines[one]:
            lines[one] = lines[one].partition(":")[0] + ": " + random.choice(SCRAPS)
            text = "\n".join(lines)
        else:
            text = text[:at] + chr(random.choice([random.randrange(256), random.randrange(0xD800)])) + text[at + 1 :]
    return text


def read_or_rejected(path):
    """The problems of a file, and what it contains if it has none."""
    try:
        return [], sb.read_workload(path, {"HOME": "/home/me"})
    except sb.WorkloadFileError as error:
        return error.problems, None


@pytest.mark.parametrize("seed", range(120))
def test_a_damaged_example(tmp_path, seed):
    random, path = Random(seed), tmp_path / "w.yaml"
    read = 0
    for _ in range(15):
        text = damaged(random.choice(EXAMPLES), random)
        path.write_text(text, encoding="utf-8")
        problems, found = read_or_rejected(path)
        read += found is not None
        lines = text.count("\n") + 2
        assert found is None or found.workloads
        assert found is not None or problems
        for one in problems:
            assert 0 <= one.line <= lines, one
            assert all(word not in str(one) for word in ("Traceback", "pydantic", "Error:", "<class")), one
    assert read < 15


def test_examples_are_read(tmp_path):
    """Otherwise the damage would not be what is rejected."""
    found = 0
    for text in EXAMPLES:
        (tmp_path / "w.yaml").write_text(text)
        try:
            sb.read_workload(tmp_path / "w.yaml", dict.fromkeys("ABC", "x"))
        except sb.WorkloadFileError:
            continue
        found += 1
        assert yaml.safe_load(text)
    assert found > 2
