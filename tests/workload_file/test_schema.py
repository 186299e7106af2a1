"""The published schema is what the code says, and takes and refuses what the reader takes and refuses."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from skyband.connectors.kinds import flat
from skyband.queries.families import FAMILIES
from skyband.workload_file import keys, schema
from skyband.workload_file.models import Document, EngineSection, Sink, Stream
from skyband.workload_file.query_models import FamilyQuery, field_of
from skyband.workload_file.starter import starter
from skyband.workload_file.tree import read_tree
from tests.workload_file.files import FULL, SHORT, VALID
from tests.workload_file.json_schema import errors
from tests.workload_file.wrong import WRONG

STREAM, QUERY, SINK = flat(Stream, "Stream"), flat(FamilyQuery, "Query"), flat(Sink, "Sink")
PUBLISHED = Path(__file__).parents[2] / "docs" / "workload.schema.json"
# Problems that lie between keys that are far apart, in the words of a value, or in what there is to name.
UNTOLD = {
    "a sink in the clouds",
    "a time that is no column", "an id that is no column", "a type", "a unit of time", "a pattern",
    "a pattern without a year", "a watermark", "a negative watermark", "streams that are one", "a size",
    "no size at all", "a label of totals",
    "a slide", "two axes", "an origin", "a stream that is not there", "queries of one name", "queries on two axes",
    "a sink of no query", "sinks in one folder", "a sink where rows come from", "a sink in the checkpoint",
    "a sink in the default checkpoint", "a sink in another sink", "a sink around another sink",
    "a sink that a glob means", "a sink whose files a glob means", "a sink below the rows", "dead letters among rows",
    "an algorithm", "sql", "sql over another stream",
    "answers too rare", "no threshold", "no weights", "weights that are none", "a threshold without need",
    "parts of a whole", "a stream of rows",
    "a list of streams", "types on one stream", "windows of two sizes",
    "an algorithm of another type", "changes of another type",
    "a broker", "an option that is a key", "a secret", "dead letters to itself", "a secret of a sink",
    "a share of late rows", "a registry", "a password of a registry", "an option of a parser",
    "several topics without a subject", "transactions with another id", "transactions without confirmation",
    "messages without confirmation", "transactions that are not retried", "transactions out of order",
    "an odd number of requests",
    "a sink without a bucket", "sinks at one address", "an address below another", "a past in the future",
    "sessions beside rows", "all rows beside some",
}  # fmt: skip


def values(text):
    return read_tree(text, lambda text, loc: text).value


def test_the_published_file_is_up_to_date():
    assert json.loads(PUBLISHED.read_text()) == schema(), "write it again: skyband schema > docs/workload.schema.json"


def test_the_schema_says_what_it_is():
    made = schema()
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert made["title"]
    assert made["additionalProperties"] is False
    assert all(made["$defs"][name]["additionalProperties"] is False for name in ("Stream", "Query", "Sink", "Engine"))
    assert errors(made["examples"][0]) == []
    assert "anyOf" not in json.dumps(made["properties"]["streams"])


@pytest.mark.parametrize("section", [Document, STREAM, QUERY, SINK, EngineSection])
def test_every_key_is_described(section):
    properties = (
        schema()["properties"]
        if section is Document
        else schema()["$defs"][section.__name__.removesuffix("Section")]["properties"]
    )
    assert list(properties) == list(section.model_fields)
    assert all(value["description"] for value in properties.values())


@pytest.mark.parametrize(("base", "all_keys"), [(Stream, STREAM), (FamilyQuery, QUERY), (Sink, SINK)])
def test_the_keys_of_every_kind_are_in_it(base, all_keys):
    kinds = [*base.kinds.values(), *base.untagged.values()]
    assert {key for kind in kinds for key in kind.model_fields} == set(all_keys.model_fields)
    assert all(field.description for kind in kinds for field in kind.model_fields.values())
    assert schema()["$defs"][all_keys.__name__]["properties"][base.tag]["anyOf"][0]["enum"] == list(base.kinds)


@pytest.mark.parametrize(("base", "all_keys"), [(Stream, STREAM), (FamilyQuery, QUERY), (Sink, SINK)])
def test_a_key_takes_the_same_values_in_all_kinds(base, all_keys):
    def taken(model, key):
        about = ("title", "description", "examples", "default")
        value = {word: part for word, part in model.model_json_schema()["properties"][key].items() if word not in about}
        return [kind for kind in value.get("anyOf", [value]) if kind != {"type": "null"}]

    for kind in base.kinds.values():
        for key in kind.model_fields.keys() - {base.tag}:
            assert taken(kind, key) == taken(all_keys, key), (kind, key)


def test_the_queries_of_a_file_are_those_of_the_families():
    assert list(FamilyQuery.kinds) == list(FAMILIES)
    for name, model in FamilyQuery.kinds.items():
        known = {field.name for field in fields(FAMILIES[name].query_class)}
        beside = {"type", "label", "since"} | ({"stream"} - known)
        assert {field_of(key) for key in model.model_fields} - known == beside


def test_examples_and_defaults_fit_their_keys():
    made = schema()
    for section in ("Stream", "Query", "Sink", "Engine"):
        for name, value in made["$defs"][section]["properties"].items():
            from tests.workload_file.json_schema import check

            shown = [*value.get("examples", []), *([value["default"]] if "default" in value else [])]
            for one in shown:
                assert list(check(one, value, made, name)) == [], name


@pytest.mark.parametrize("name", VALID)
def test_it_takes_what_is_read(name):
    assert errors(values(VALID[name])) == []


def test_it_takes_the_first_file():
    assert errors(values(starter(None))) == []


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses_what_is_not_read_as_far_as_it_can_tell(name):
    old, new, *_ = WRONG[name]
    assert bool(errors(values(SHORT.replace(old, new, 1)))) == (name not in UNTOLD)


@pytest.mark.parametrize("text", ["[]", "", "a", "streams: {}\nqueries: []", "streams:\nqueries:"])
def test_it_refuses_what_is_no_workload_file(text):
    assert errors(values(text))


def test_a_variable_may_stand_for_any_single_value():
    tree = read_tree(FULL, lambda text, loc: text)
    for loc in tree.places:
        spot = tree.value
        for part in loc[:-1]:
            spot = spot[part]
        if loc and not isinstance(spot[loc[-1]], dict | list):
            before, spot[loc[-1]] = spot[loc[-1]], "${NAME:-x}"
            assert errors(tree.value) == [], loc
            spot[loc[-1]] = before


def test_keys_are_all_keys():
    found = {key.path: key for key in keys()}
    sections = (
        (STREAM, "streams.<name>."),
        (QUERY, "queries[]."),
        (SINK, "sinks[]."),
        (EngineSection, "engine."),
    )
    assert set(found) == set(Document.model_fields) | {
        prefix + name for model, prefix in sections for name in model.model_fields
    }
    assert found["queries[].size"].type == "whole number | duration | all"
    assert found["streams.<name>.watermark"].default == "10 seconds"
    assert found["streams.<name>.source"].type == "delta | files | iceberg | kafka | rate | socket | table"
    assert all(key.type and key.description.endswith(".") for key in keys())
