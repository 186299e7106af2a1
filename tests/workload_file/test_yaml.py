"""YAML that is broken, odd or meant to harm: told with its place, and never made into anything but plain values."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skyband as sb
from tests.workload_file.files import SHORT


def of_file(tmp_path, content=None):
    file = tmp_path / "w.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(sb.WorkloadFileError) as caught:
        sb.read_workload(file)
    [problem] = caught.value.problems
    return problem


def test_no_file(tmp_path):
    problem = of_file(tmp_path)
    assert (problem.line, problem.key) == (0, "")
    assert str(problem) == f"{tmp_path}/w.yaml: the file does not exist; skyband init writes one."


def test_a_folder(tmp_path):
    with pytest.raises(
        sb.WorkloadFileError, match=r": this is a folder; name the file in it, such as .*skyband\.yaml\.$"
    ):
        sb.read_workload(tmp_path)


def test_a_path_that_cannot_be_one():
    with pytest.raises(sb.WorkloadFileError, match="cannot be read"):
        sb.read_workload("a\0b")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a comment\n", b"---\n", b"~"])
def test_an_empty_file(tmp_path, content):
    assert of_file(tmp_path, content).message.endswith(
        "must have the keys streams and queries (optional: sinks, engine), got an empty file."
    )


@pytest.mark.parametrize(("content", "what"), [(b"- a\n", "got a list."), (b"text", "got 'text'."), (b"5", "got 5.")])
def test_something_else_at_the_top(tmp_path, content, what):
    assert of_file(tmp_path, content).message.endswith(what)


def test_bytes_that_are_no_text(tmp_path):
    problem = of_file(tmp_path, b"streams:\n  caf\xe9: {}\n")
    assert (problem.line, problem.column) == (2, 6)
    assert "0xe9" in problem.message
    assert "UTF-8" in problem.message


def test_a_character_that_may_not_be(tmp_path):
    problem = of_file(tmp_path, b"streams:\n  a\x07b: 1\n")
    assert (problem.line, problem.column) == (2, 4)
    assert "U+0007" in problem.message


def test_a_file_that_is_too_large(tmp_path):
    assert "1,000,000 bytes" in of_file(tmp_path, b"#" * 1_000_001).message


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("streams:\n\ttrades: 1\n", 2, "not with tabs"),
        ("streams:\n  a: 1\n b: 2\n", 3, "start in the same column"),
        ("streams: {a: 1\nqueries: 2\n", 2, "missing closing quote or bracket"),
        ("a: b: c\n", 1, "quotes around text that contains ': '"),
        ("a: `x`\n", 1, "quotes around text that begins with"),
        ("a: @x\n", 1, "quotes around text that begins with"),
        ("a: 'x\n", 2, "missing closing quote or bracket"),
        ("a: *b\n", 1, "quotes around text that begins with * or &"),
        ("a: 1\n---\nb: 2\n", 2, "one document"),
        ("a: {port: ${PORT}}\n", 1, "put quotes around ${…}"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
    ],
)
def test_yaml_that_is_broken(problems, text, line, hint):
    found = problems(text)
    assert found[0][0] == line
    assert hint in found[0][3]


def test_a_key_that_is_there_twice(problems):
    [found] = problems(SHORT + "    k: 11\n")
    assert found == (10, 5, "queries[0].k", "is a duplicate key; the first is on line 7.")


@pytest.mark.parametrize("key", ["[1, 2]", "{a: 1}", "''"])
def test_keys_that_are_no_words(problems, key):
    assert any("a key must be a single word" in problem[3] for problem in problems(SHORT + f"{key}: 1\n"))


@pytest.mark.parametrize("tag", ["!!python/name:os.system", "!!binary", "!!set", "!mine", "!!timestamp", "!!int"])
def test_tags_make_nothing(problems, tag):
    assert any("tag" in problem[3] for problem in problems(SHORT.replace("price", f"{tag} price")))


def test_tags_that_say_what_is_there(read):
    assert read(SHORT.replace("by: price", "by: !!str 1")).workloads["trades"]["big"].by == "1"


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "a: " + "[" * 100_000,
        "a: " + "{a: " * 100_000,
        "".join(f"{' ' * n}a:\n" for n in range(1000)),
        "- " * 100_000,
    ],
    ids=["laughs", "itself", "itself in a mapping", "brackets", "braces", "steps", "dashes"],
)
def test_bombs_do_not_go_off(problems, bomb):
    begin = time.perf_counter()
    [found] = problems(bomb)
    assert "levels" in found[3]
    assert time.perf_counter() - begin < 300  # all of it would take days


@pytest.mark.long
def test_many_values_are_no_bomb(tmp_path):
    """Only values that aliases repeat are limited, not those that somebody wrote."""
    queries = "".join(f"  - {{name: q{number}, k: 1, size: 1 day, by: price}}\n" for number in range(12_000))
    (tmp_path / "w.yaml").write_text(SHORT[: SHORT.index("queries:")] + "queries:\n" + queries)
    (workload,) = sb.read_workload(tmp_path / "w.yaml").workloads.values()
    assert len(workload.queries) == 12_000


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "-" + "9" * 5000, "1e" + "9" * 5000, "${N}"])
def test_numbers_without_end(problems, number):
    found = problems(SHORT.replace("k: 10", f"k: {number}"), {"N": "9" * 5000})
    assert [problem[2] for problem in found] == ["queries[0].k"]
    assert len(found[0][3]) < 300


PIECES = st.sampled_from(
    [
        *"-?:,[]{}#&*!|>'\"%@`~<\t\n \\",
        "\n  ",
        "\n- ",
        ": ",
        " #",
        "${",
        "}",
        "a",
        "k",
        "1",
        "streams",
        "queries",
        "!!",
        "---",
    ]
)


@given(st.lists(PIECES | st.characters(), max_size=40).map("".join), st.integers(0, len(SHORT)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_is_read_or_refused(tmp_path, text, at):
    file = tmp_path / "w.yaml"
    for content in (text, SHORT[:at] + text + SHORT[at:]):
        file.write_bytes(content.encode("utf-8", "surrogatepass"))
        with contextlib.suppress(sb.WorkloadFileError):
            sb.read_workload(file, {"a": "b"})
