"""Expressions from outside, as Spark's parser reads them: only values computed from the row's columns get in."""

from __future__ import annotations

import random

import pytest

import skyband as sb
from skyband.jobs.expression_guard import refuse_unlisted
from skyband.sql.safety import FUNCTIONS

SCHEMA = "price double, shares long, name string, at timestamp, more struct<x:int>, "
SCHEMA += "tags array<struct<key:string,value:string>>"
CALL = "reflect('java.lang.Integer', 'parseInt', '41')"
CLIMBED = "price /* /*+ */ + cast(reflect('java.lang.Integer','parseInt','41') as int) -- */\n * 1"


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame([], SCHEMA)


def query(text):
    return sb.TopK(name="q", k=1, size="5 seconds", by=text)


@pytest.mark.parametrize(
    "text",
    [
        "price * shares",
        "-price % 3 + shares div 2",
        "extract(HOUR FROM at) + hour(at)",
        "substring(name FROM 2 FOR 3)",
        "case when price > 1 and name like 'a%' then 1 else 0 end",
        "cast(price AS decimal(10, 2))",
        "price::int",
        "try_divide(price, shares)",
        "nullif(price, 0)",
        "round(price, 2)",
        "size(filter(tags, t -> t.key = 'trace' and t.value <> name))",
        "aggregate(sequence(1, 3), 0, (sum, n) -> sum + n)",
        "element_at(tags, 1).key",
        "tags[0].value",
        "more.x",
        "`price` + PRICE",
        "name in ('reflect(1)', '-- no', '/* no */')",
        "upper(trim(name)) || lower(name)",
        "date_trunc('hour', at)",
        "unix_timestamp(current_timestamp())",
        "current_date",
        "timestampdiff(HOUR, at, at)",
        "price between 1 and 2",
        "name is not null or price is distinct from 2",
        "raise_error(name)",
        "name rlike '('",
        "date '2024-01-01'",
        "interval 1 day",
        "get_json_object(name, '$.a')",
    ],
)
def test_values_of_the_row_are_taken(frame, text):
    refuse_unlisted(frame, query(text))


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        CLIMBED,
        CLIMBED.replace("\n", "\r"),
        "java_method('java.lang.System', 'exit', 1)",
        "try_reflect('a', 'b')",
        f"`reflect`{CALL[7:]}",
        f"ReFlEcT/**/{CALL[7:]}",
        f"system.builtin.{CALL}",
        "identifier('ref' || 'lect')('a', 'b')",
        f"coalesce(price, {CALL})",
        f"size(filter(tags, t -> {CALL} = 1))",
        f"transform(tags, t -> struct({CALL}))[0].col1",
        f"case when {CALL} > 1 then 1 end",
        "input_file_name()",
        "input_file_block_start()",
        "_metadata.file_path",
        "current_user()",
        "current_user",
        "user",
        "session_user()",
        "current_catalog()",
        "current_database()",
        "exists(filter(tags, current_user -> true), t -> current_user = 'x')",
        "exists(tags, t -> user = 'x')",
        "version()",
        "uuid()",
        "rand()",
        "ai_query('m', name)",
        "ai_gen(name)",
        "read_files('/etc')",
        "from_protobuf(name, 'x', '/etc/passwd')",
        "xpath(name, 'a')",
        "no_such_function(price)",
        "spark_partition_id()",
        "sum(price)",
        "rank() over (order by price)",
        "explode(tags)",
        "(SELECT max(value) FROM text.`/etc/passwd`)",
        "exists(SELECT 1)",
        "price IN (SELECT 1)",
        "*",
        ":parameter",
        "nothing",
    ],
)
def test_all_else_is_refused(frame, text):
    with pytest.raises(sb.UnsupportedError, match="which is not allowed in a running job"):
        refuse_unlisted(frame, query(text))


def test_what_is_no_expression_is_told_as_such(frame):
    with pytest.raises(sb.InvalidQueryError, match="is not an SQL expression"):
        refuse_unlisted(frame, query("price +"))


def test_listed_functions_are_sparks(spark):
    """A misspelt name would let nothing in, and nobody would notice."""
    known = {row[0].rpartition(".")[2] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in FUNCTIONS if name[0].isalpha()} <= known | {"cast", "extract", "printf", "curdate"}


def test_listed_functions_compute_one_value_from_one_row(spark):
    """By the classes of Spark: none needs several rows, returns several, or is random."""
    catalyst, java = "org.apache.spark.sql.catalyst.expressions", spark._jvm
    loader = java.Thread.currentThread().getContextClassLoader()
    others = [
        java.java.lang.Class.forName(f"{catalyst}.{name}", False, loader)
        for name in ("aggregate.AggregateFunction", "Generator", "WindowFunction", "Nondeterministic")
    ]
    found = {}
    for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        name = row[0].rpartition(".")[2]
        told = [line[0] for line in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()]
        named = next((line.removeprefix("Class: ") for line in told if line.startswith("Class: ")), "")
        if named.startswith("org.") and name in {*FUNCTIONS, "rand", "sum", "stack", "lag"}:
            kind = java.java.lang.Class.forName(named, False, loader)
            found[name] = any(other.isAssignableFrom(kind) for other in others)
    assert {name for name, is_other in found.items() if is_other} == {"rand", "sum", "stack", "lag"}
    assert len(found) > 300


def test_a_call_does_not_hide_in_comments_hints_and_quotes(frame):
    """Pieces that parsers read differently, in any order: where Spark sees the call, it is refused."""
    pieces = [
        "/*",
        "*/",
        "/*+",
        "--",
        "\n",
        "\r",
        "'",
        '"',
        "`",
        "\\",
        "\\'",
        "''",
        "r'",
        'R"',
        "#",
        "{#",
        "$$",
        "\u2019",
    ]
    pieces += ["\u00a0", "\u2028", " ", "price", "+", "1", CALL, f"cast({CALL} AS int)", "(", ")", ","]
    draw = random.Random(20)
    seen = refused = 0
    parser = frame.sparkSession._jsparkSession.sessionState().sqlParser()
    for _ in range(1500):
        text = "".join(draw.choice(pieces) for _ in range(draw.randint(2, 9)))
        try:
            tree = parser.parseExpression(text)
        except Exception:
            continue
        if "'reflect(" not in tree.treeString().replace("\n", " ") and "reflect(" not in str(tree.sql()):
            continue
        seen += 1
        try:
            refuse_unlisted(frame, query(text))
        except sb.UnsupportedError:
            refused += 1
            continue
        # What got through says `reflect(` in a text only.
        assert not _calls(tree), text
    assert seen > 20
    assert refused > 20


def _calls(tree):
    """Whether a node of the tree is a call: asked of Spark's own collector of them."""
    if tree.getClass().getSimpleName() == "UnresolvedFunction":
        return True
    children = tree.children()
    return any(_calls(children.apply(place)) for place in range(children.size()))
