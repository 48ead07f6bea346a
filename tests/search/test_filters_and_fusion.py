"""Filters mean the same as text, in Python, in ExactIndex and in PostgreSQL; ranks are fused as the formula says."""

import contextlib
import datetime as dt
import importlib.util
import logging
import math
import operator
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from refusals import refusal
from store_places import new_store, unit_vectors

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search import values
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.filters import Condition, Filter, as_filter, parse
from contrastive_st.search.index import fuse, unmet
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres.predicates import as_jsonpath
from contrastive_st.search.postgres.writes import _IS_DATE
from contrastive_st.search.values import as_held, as_id, plain

ROOT = Path(__file__).parents[2]

# --- The grammar


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("topic=sea", [("topic", "=", "sea")]),
        ("topic == sea , sky", [("topic", "=", "sea", "sky")]),
        ("topic!=a; topic!=b", [("topic", "!=", "a"), ("topic", "!=", "b")]),
        ("year>=2000;year<2010", [("year", ">=", "2000"), ("year", "<", "2010")]),
        ('title="Hello, world; no"', [("title", "=", "Hello, world; no")]),
        ('"a=b; c"=1', [("a=b; c", "=", "1")]),
        (r'q="a \"b\" \u00e9"', [("q", "=", 'a "b" é')]),
        ("url=http://x?a=b&c<d", [("url", "=", "http://x?a=b&c<d")]),
        ('size=5" pipe', [("size", "=", '5" pipe')]),
        ('a=null,"null"', [("a", "=", None, "null")]),
        ("a=", [("a", "=", "")]),
        ("a=x\ny", [("a", "=", "x\ny")]),
        ("a!='x, y','it''s'", [("a", "!=", "x, y", "it's")]),
        ("a='tis, 'twas,O'Neil", [("a", "=", "'tis", "'twas", "O'Neil")]),
        ("a='null'; b=war and peace", [("a", "=", "null"), ("b", "=", "war and peace")]),
        (" ; ", []),
    ],
)
def test_the_grammar(text, parts):
    assert [(one.column, one.operator, *one.values) for one in parse(text).parts] == parts
    assert parse(str(parse(text))) == parse(text)


UNREADABLE = ("a", "=3", "a>b", "a>1,2", 'a="x', 'a="b"c', "a>=true", "a<null", "a<", "a>03/01/2024", "; b", '"a',
              "a=1; b", "a!=x AND y>=1", "a!='x' or b is null", "a=x && b=y", r'a="\q"', {"a": {"~": 1}}, {"a": []},
              {"a": object()}, {"a": math.nan}, {"a": b"x"}, ["a"], lambda hit: True, 7)  # fmt: skip


@pytest.mark.parametrize("filter", UNREADABLE)
def test_what_cannot_be_read_or_compared_is_shown_in_one_line(filter):
    with refusal("filter"):
        as_filter(filter)


def test_no_text_takes_long():
    for text in (
        "a" + " " * 200_000,
        '"' * 200_000,
        "a=" + "," * 50_000,
        "a=" + '"\\' * 100_000,
        "<" * 200_000,
        "a=" + " and " * 50_000,
        "a=" + "'" * 99_999 + "x",
        "a=" + "'x," * 50_000,
    ):
        with contextlib.suppress(InputError):
            parse(text)


def test_forms_of_one_filter():
    wanted = parse("year>=2020; year<2030; topic=x,y")
    assert as_filter(["year>=2020", {"year": {"<": "2030"}}, "topic=x,y"]) == wanted
    assert str(as_filter({"year": {">=": 2020, "<": 2030}, "topic": ["x", "y"]})) == str(wanted)
    assert as_filter({"day": {">": dt.date(2024, 5, 1)}, "price": Decimal("1.5"), "n": np.int64(3)}) == Filter(
        (Condition("day", ">", ("2024-05-01",)), Condition("price", "=", (1.5,)), Condition("n", "=", (3,)))
    )

    either = Filter((Condition("a", "=", (1,)), Condition("b", "=", (2,))), "or")
    assert as_filter([either, "c=3"]).parts == (either, Condition("c", "=", ("3",)))


def test_hostile_keys_and_values_stay_inside_their_quotes():
    path = as_jsonpath(as_filter({'a" || true) //': 'x" || $."b" == "y', "l": "a\0b"}))
    assert path == '(($."a\\" || true) //" == "x\\" || $.\\"b\\" == \\"y") && ($."l" == "a\ufffdb"))'


def test_the_page_is_what_the_parser_writes():
    spec = importlib.util.spec_from_file_location("filter_page", ROOT / "docs" / "filter_page.py")
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    assert written.PAGE.read_text(encoding="utf-8") == written.page()
    assert "none: " not in written.page().split("## What is refused")[1]


# --- What a condition means

LONG = 1152921504606846977  # exact in no double
MEANING = [
    ({"a": 1}, "a=1", True), ({"a": "1"}, "a=1", True), ({"a": "1"}, {"a": 1}, False), ({"a": 1}, {"a": "1"}, True),
    ({"a": True}, "a=1", False), ({"a": 1.0}, {"a": 1}, True), ({"a": "007"}, "a=7", False),
    ({"a": "1.10"}, "a=1.1", False),
    ({"a": LONG}, f"a={LONG}", True), ({"a": LONG}, f"a!={LONG}", False), ({"a": LONG}, f"a={LONG - 1}", False),
    ({"a": LONG}, f"a>{LONG - 1}", True), ({"a": LONG}, {"a": str(LONG)}, True), ({"a": str(LONG)}, {"a": LONG}, False),
    ({"a": 0.1234567890123456}, "a=0.1234567890123456", True), ({"a": 0.2199999988}, "a!=0.2199999988", False),
    ({"a": 1e300}, "a=1e300", True), ({"a": 0.1}, "a=0.10", True), ({"a": "0.000"}, {"a": -0.0}, False),
    ({"a": -0.0}, "a=0", True), ({"a": "1999.0"}, "a=1999", False), ({"a": "12.50"}, {"a": 12.5}, False),
    ({"a": "1999.01"}, "a=1999", False),
    ({"a": "1e3"}, "a=1e3", True),
    ({"a": True}, "a=true", True), ({"a": "TRUE"}, {"a": True}, False),
    ({"a": "t"}, "a=true", False), ({"a": True}, "a=t", False), ({"a": "t"}, "a=t", True),
    ({"a": False}, "a=true", False), ({"a": ["x", "y"]}, "a=y", True), ({"a": ["x", "y"]}, "a!=y", False),
    ({"a": ["x", "y"]}, "a!=z", True), ({"a": ["x", "y"]}, "a=x; a=y", True), ({"a": "x"}, "a=x; a=y", False),
    ({"a": "x"}, "a=y,x", True), ({"a": "x"}, "a!=y,x", False), ({"a": 5}, {"a": {">=": 5, "<": 6}}, True),
    ({"a": "2021"}, "a>2020", True), ({"a": "2021"}, {"a": {">": 2020}}, True), ({"a": "x"}, "a>2020", False),
    ({"a": [1999, "2021"]}, "a>2020", True), ({"a": True}, "a>0", False), ({"a": "1e3"}, "a>=1000", False),
    ({"a": "05"}, "a>=5", False), ({"a": 5}, "a<1e999", True),
    ({"a": "1,5"}, "a<6", False),
    ({"a": "05"}, "a=5", False), ({"a": "05"}, "a=05", True), ({"a": "05"}, "a!=5", True),
    ({"a": "2024-03-01"}, "a>=2024", True), ({"a": "2024-03-01"}, "a<=2024", True),
    ({"a": "2024-03-01"}, "a>2024", False),
    ({"a": "2024-03-01"}, {"a": {"<": dt.date(2024, 3, 2)}}, True), ({"a": "2024-03-01"}, "a<2024-03", False),
    ({"a": "2024-03-01T10:30:00"}, "a>2024-03-01T09:15", True),
    ({"a": "2024-03-01 10:30"}, "a>2024-03-01T11:15", False),
    ({"a": "2024-03-01 10:30"}, "a>2024-03-01 09:15", True), ({"a": "03/01/2024"}, "a>=2024", False),
    ({"a": "2024-05-03"}, {"a": {">=": dt.datetime(2024, 5, 3)}}, True),
    ({"a": "2024-05-03"}, {"a": {"<": dt.datetime(2024, 5, 3)}}, False),
    ({"a": "2024-05-03"}, {"a": {"<=": dt.datetime(2024, 5, 3)}}, True),
    ({"a": "2024-05-03"}, {"a": {">": dt.datetime(2024, 5, 3)}}, False),
    ({"a": "2024-05-03"}, {"a": {">": dt.datetime(2024, 5, 2, 23, 59)}}, True),
    ({"a": "2024-05-03"}, {"a": {"<": dt.datetime(2024, 5, 3, 0, 0, 0, 1)}}, True),
    ({"a": "2024-05-03"}, "a>=2024-05-03T00:00", True), ({"a": "2024-05-03"}, "a>2024-05-03 00:00", False),
    ({"a": "2024-05"}, "a>=2024-05-01", True), ({"a": "2024"}, "a<2024-01-01T00:00", False),
    ({"a": "2024-05-01 10:00"}, "a>=2024-05-01T10:00:00", True),
    ({"a": "2024-05-01 10:00"}, "a>=2024-05-01T10:00:30", False),
    ({"a": "2024-05-01T10:00:00"}, "a>=2024-05-01T10:00:00.000000+02:00", True),
    ({"a": "2024-05-01T10:00:00Z"}, "a<=2024-05-01T10:00:00Z", True),
    ({"a": "2024-05-01T09:30:00Z"}, "a<=2024-05-01T09:30:00.000Z", True),
    ({"a": "2024-05-01T09:30Z"}, "a>2024-05-01T09:30:00.0", False),
    ({"a": "2024-05-01T09:30:00.5Z"}, "a<2024-05-01T09:30:00.5000001", True),
    ({"a": "2024-05-01T09:30:00Z"}, "a=2024-05-01T09:30:00", False),
    ({"a": "2024-05-03"}, {"a": dt.datetime(2024, 5, 3)}, True),
    ({"a": "2024-05-03 00:00:00"}, {"a": dt.date(2024, 5, 3)}, True),
    ({"a": "2024-05-03 10:30"}, {"a": {"!=": dt.datetime(2024, 5, 3, 10, 30)}}, False),
    ({"a": "2024"}, "a=2024-01-01", False), ({"a": "2024-05-03 10:30:01"}, "a=2024-05-03T10:30", False),
    ({"a": None}, "a=null", True), ({}, "a=null", True), ({"a": []}, "a=null", True), ({"a": 0}, "a=null", False),
    ({"a": None}, "a!=null", False), ({"a": [None, 1]}, "a!=null", True), ({"a": "null"}, 'a="null"', True),
    ({}, "a!=3", False), ({"a": None}, "a!=3", False), ({"a": None}, "a=3,null", True), ({}, "a<3", False),
    ({"a": {"b": "x"}}, "a.b=x", True), ({"a": [{"b": 1}, {"b": 2}]}, "a.b>1", True), ({"a.b": "x"}, "a.b=x", True),
    ({"a": {"b": "x"}}, "a.b!=x", False), ({"a": {"b": "x"}}, "a!=null", True), ({"a": [["x"]]}, "a=x", False),
    ({"a": {"b": {"c": 1}}}, "a.b.c=1", True), ({"a": ""}, "a=", True), ({"a": [{"b": 1}, "y"]}, "a!=x", True),
]  # fmt: skip


@pytest.fixture(scope="module")
def store(place):
    with new_store(place, "filters") as opened:
        yield opened


def fill(store, metadata):
    """Documents with these metadata; a column is of all that it has had, unless it is emptied."""
    store.delete(store.known(range(1000)))
    store.database.rows("UPDATE collections SET types = '{}' RETURNING name")
    store.upsert(range(len(metadata)), ["t"] * len(metadata), unit_vectors(len(metadata)), metadata)


def test_what_a_condition_means_here_and_in_postgresql(store):
    fill(store, [metadata for metadata, _, _ in MEANING])
    for number, (metadata, filter, wanted) in enumerate(MEANING):
        assert as_filter(filter).holds(as_held(plain(metadata))) is wanted, (metadata, filter)
        assert (number in ids_found_by(store, filter)) is wanted, (metadata, filter)


def test_a_filter_may_have_thousands_of_values(store):
    fill(store, [{"a": 3}, {"a": 7.00}, {"a": -1}])
    assert store.count({"a": list(range(3000))}) == 2


@pytest.mark.parametrize("indexes", ["postgresql", "exact"])
def test_all_of_no_conditions_hold_and_none_of_them_does(store, indexes):
    fill(store, [{"a": 1}, {"a": 2}])
    index = ExactIndex([0, 1], ["t", "t"], unit_vectors(2), [{"a": 1}, {"a": 2}]) if indexes == "exact" else store
    one, none = Condition("a", "=", (1,)), Filter((), "or")
    for filter, found in (
        (Filter(), [0, 1]), (none, []), (Filter((), "not"), []), (Filter((one, none)), []),
        (Filter((one, none), "or"), [0]), (Filter((none,), "not"), [0, 1]), (Filter((Filter(),), "not"), []),
    ):  # fmt: skip
        assert ids_found_by(index, filter) == found, filter
        assert index.count(filter) == len(found)


def ids_found_by(index, filter, count=200):
    with contextlib.suppress(InputError):
        return sorted(hit.id for hit in index.search(unit_vectors(1), count, filter=filter)[0])
    return "no such column"


# --- Random conditions, against a loop that is written from the documentation alone

NOON = "2001-05-07T12:00"
TEXTS = [
    "sea", "sky", "a, b", 'say "x"', "True", "2001", "1.5", "2001-05", "2001-05-07", "null", "", "é;", "-3", "false",
    "=x", " y", "a\\", "new\nline", "2001.0", "-3.00", "0.50", str(LONG), "2001-05-07 00:00:00", "2001-05-07 12:00",
    "02001", "+3", ".50", *map(NOON.__add__, (":00Z", ":00.500Z", ":00.500", ":00+02:00", "Z")),
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.integers(1999, 2002), 
    st.sampled_from([0.5, -1.5, 2001.0, 1e3, LONG, LONG - 1]),
    st.sampled_from(TEXTS), st.dates(dt.date(2000, 12, 30), dt.date(2001, 12, 31)),
    st.datetimes(dt.datetime(2001, 5, 6), dt.datetime(2001, 5, 9)),
    st.just(dt.datetime(2001, 5, 7, 0, 0, 1)),
)  # fmt: skip
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.fixed_dictionaries({"in": SCALARS}))
COLUMNS = ["a", "b", "c.in", "c", 'od"d; =']
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c", 'od"d; =']), VALUES, max_size=4), min_size=1, max_size=12
)
ENDS = st.one_of(
    st.integers(-5, 2003),
    st.sampled_from([0.5, 2000.5, "2001", "2001-05", "2001-05-07"]),
    st.sampled_from(["", "Z", ":00", ":00.000Z", ":00.500", ":00.500Z", ":00.250-03:00"]).map(NOON.__add__),
    st.datetimes(dt.datetime(2001, 5, 6), dt.datetime(2001, 5, 9)),
    st.just(dt.datetime(2001, 5, 7)),
)
CONDITIONS = st.one_of(
    st.builds(lambda c, o, v: {c: {o: v}}, st.sampled_from(COLUMNS), st.sampled_from(["=", "!="]),
              st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(lambda c, o, v: {c: {o: v}}, st.sampled_from(COLUMNS), st.sampled_from(["<", "<=", ">", ">="]), ENDS),
)  # fmt: skip
RANGES = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def held(value):
    """A value as JSON, by hand."""
    return value.isoformat() if isinstance(value, dt.date) else value


def plainly(row, condition):
    ((column, comparison),) = condition.items()
    ((symbol, wanted),) = comparison.items()
    values = row.get("c") if column == "c.in" else row.get(column)
    values = values if isinstance(values, list) else [values]
    if column == "c.in":
        values = [value["in"] for value in values if isinstance(value, dict)]
        values = [one for value in values for one in (value if isinstance(value, list) else [value])]
    values = [held(value) for value in values if value is not None]
    if symbol in RANGES:
        return any(in_range(RANGES[symbol], value, wanted) for value in values)
    ends = [held(one) for one in wanted if one is not None]
    meets = (None in wanted and not values) or any(same(one, value) for one in ends for value in values)
    return meets if symbol == "=" else bool(values) and not meets


def same(wanted, value):
    """Text in a filter is what the value is: a number, a boolean, a moment or text."""
    if isinstance(wanted, str) and isinstance(value, bool):
        return wanted.lower() == str(value).lower()
    if isinstance(wanted, str) and isinstance(value, (int, float)):
        return number(wanted) == number(value)
    if isinstance(wanted, str) and isinstance(value, str):
        return wanted == value or (moment(wanted) == moment(value) is not None and zone(wanted) == zone(value))
    return isinstance(wanted, bool) == isinstance(value, bool) and wanted == value


def number(value):
    """The number that a value is, or that a text in a filter says."""
    written = re.fullmatch(r" *[-+]?(\d+\.?\d*|\.\d+) *", str(value))
    return Decimal(str(value)) if written and not isinstance(value, (bool, dict)) else None


def moment(value, shortest=10):
    """The moment that a text holds, at which its day, month or year begins."""
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}(-\d\d(-\d\d([T ]\d\d:\d\d.*)?)?)?", value):
        return None
    value = value.removesuffix(zone(value))
    return dt.datetime.fromisoformat(value + "2001-01-01"[len(value) :]) if len(value) >= shortest else None


def zone(value):
    return re.search(r"(T.*?(?P<zone>Z|[+-].*))?$", value)["zone"] or ""


def in_range(compare, value, wanted):
    if isinstance(value, (int, float)) and not isinstance(value, bool) and number(wanted) is not None:
        return compare(number(value), number(wanted))
    end = str(held(wanted))
    if None in (moment(value, 4), moment(end, 4)):
        return False
    precise = lambda one: moment(one, 4).isoformat(timespec="microseconds")[: len(end.removesuffix(zone(end)))]
    return compare(precise(value), precise(end))


JOINS = {"and": all, "or": any, "not": lambda held: not all(held)}  # Haystack's filters are made of these


@example(rows=[{"a": dt.datetime(2001, 5, 7, 0, 0, 1)}], kind="and", filters=[[{"a": {"<=": dt.datetime(2001, 5, 7)}}]])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, kind=st.sampled_from(["and", "and", *JOINS]),
       filters=st.lists(st.lists(CONDITIONS, max_size=3), min_size=1, max_size=6))  # fmt: skip
def test_random_conditions_find_the_same_in_every_index(store, rows, kind, filters):
    exact = ExactIndex(range(len(rows)), ["t"] * len(rows), unit_vectors(len(rows)), rows)
    fill(store, rows)
    for conditions in filters:
        wanted = [i for i, row in enumerate(rows) if JOINS[kind]([plainly(row, one) for one in conditions])]
        chosen = Filter(tuple(map(as_filter, conditions)), kind)
        assert [i for i, row in enumerate(rows) if chosen.holds(as_held(plain(row)))] == wanted, (rows, conditions)
        for form in (conditions, str(as_filter(conditions))) if kind == "and" else (chosen,):
            counts = [counted(index, form) for index in (exact, store)]
            assert counts[0] == counts[1], (rows, form)
            assert isinstance(form, str) or counts[0] in (len(wanted), "refused"), (rows, form)
            assert ids_found_by(exact, form) == ids_found_by(store, form)


def counted(index, filter):
    try:
        return index.count(filter)
    except InputError:
        return "refused"


def test_the_store_and_python_agree_about_what_is_a_date():
    days = [
        f"{y}-{m:02}-{d:02}" for y in ("0000", "1900", "2000", "2023", "2024") for m in range(20) for d in range(40)
    ]
    times = [
        "2024",
        "2024-02",
        "2024-13",
        *(f"2024-02-29{t}" for t in ("T09:30", " 09:30:00.5Z", "T9:30", "T09:30:5", "x")),
    ]
    assert [x for x in [*days, *times] if bool(re.search(_IS_DATE, x)) != (values.moment(x) is not None)] == []


JSON_LINES = '{"id": 1, "text": "a", "day": "2024-05-01"}\n{"id": 2, "text": "b", "day": "%s"}\n'


@pytest.mark.parametrize(("kind", "rows"), [("jsonl", JSON_LINES), ("csv", "id,text,day\n1,a,2024-05-01\n2,b,%s\n")])
def test_the_dates_of_a_column_are_compared_where_it_has_text_too(place, kind, rows, tmp_path, capsys):
    path, at = tmp_path / f"rows.{kind}", ["--collection", f"days_{kind}", "--store", place, "--index", "none"]
    for flags, second, type, count in (
        ("--sync", "2023-02-29", "mixed", 1),
        ("--sync", "2024-06-01", "date", 2),
        ("--types=day=text", "x", "text", None),
        ("--sync", "soon", "mixed", 1),
        ("--replace", "2024-06-01", "date", 2),
    ):
        path.write_text(rows % second)
        assert main(["index", str(path), *at, flags]) == 0
        assert f"day {type}" in capsys.readouterr().err
        with open_index(place, at[1]) as index:
            assert index.types()["day"] == type
            assert counted(index, "day>=2024") == (count or "refused")
            index.upsert([1], ["a"], unit_vectors(1, index.dimension), [{"day": "soon"}])
            assert count is None or counted(index, "day>=2024") == count - 1


def test_a_list_of_several_types_is_typed_anew(place, tmp_path):
    path, at = tmp_path / "rows.jsonl", ["--collection", "lists", "--store", place, "--index", "none"]
    for cell, type in (
        ('["a", 1]', "list of mixed"),
        ('["a"]', "list of text"),
        ("1", "number"),
        ("[1]", "list of number"),
    ):
        path.write_text(f'{{"id": 1, "text": "a", "tags": {cell}}}\n')
        assert main(["index", str(path), *at, "--sync"]) == 0
        with open_index(place, at[1]) as index:
            assert index.types()["tags"] == type


def test_the_id_and_the_text_of_a_document_are_columns_of_a_filter(store):
    ids, texts, metadata = [7, "talk-7", 2**62 + 1], ["On tides", 'On "rain"', ""], [{"_id": "x"}, {}, {"(id)": 1}]
    exact = ExactIndex(ids, texts, unit_vectors(3), metadata)
    fill(store, [])
    store.upsert(ids, texts, unit_vectors(3), metadata)
    for filter, wanted in (
        ({"(id)": "talk-7"}, ["talk-7"]),
        ("(id)=7", [7]),
        ({"(id)": {"!=": [7, "talk-7"]}}, [2**62 + 1]),
        ("(id)>7", ["talk-7", 2**62 + 1]),
        ({"(text)": 'On "rain"'}, ["talk-7"]),
        ({"(text)": {"!=": "On tides"}, "(id)": ["7", "talk-7"]}, ["talk-7"]),
        ("(text)=null", []),
        ("_id=x; (id)=7", [7]),
    ):
        for index in (exact, store):
            hits = index.search(unit_vectors(1), filter=filter)[0]
            assert {hit.id for hit in hits} == {as_id(one) for one in wanted}, filter
            assert index.count(filter) == len(wanted)
    assert [hit.text for hit in store.search(unit_vectors(1), filter="(id)=7", text="tides")[0]] == ["On tides"]
    assert store.delete_matching("(text)=On tides") == 1
    assert store.known(ids) == [as_id("talk-7"), 2**62 + 1]
    store.delete(ids)


# --- A condition that cannot match says so, everywhere the same

DOCUMENTS = [
    {"topic": "sea", "year": 1999, "note": None}, {"topic": "sky", "year": 2004, "by": {"name": None}},
    {"topic": ["sea", "rain"], "name": "x", "note": []},
]  # fmt: skip


@pytest.fixture(params=["exact", "store"])
def index(request):
    if request.param == "exact":
        return ExactIndex(range(3), ["t"] * 3, unit_vectors(3), DOCUMENTS)
    store = request.getfixturevalue("store")
    fill(store, DOCUMENTS)
    return store


@pytest.mark.parametrize(
    ("filter", "line"),
    [
        ("topic=see", "no document meets topic=see; the column has: rain, sea, sky"),
        ("topic!=sea,sky,rain", "no document meets topic!=sea,sky,rain; the column has: rain, sea, sky; a comma"),
        ("year>2010", "no document meets year>2010 (it has no number or date in that range; it has: 1999, 2004)"),
        ("topic=sea; topic=sky", "each condition is met by some document, but no document meets all of them: "
         "topic=sea; topic=sky; alternatives are written column=a,b"),
        ("note=sea", "no document meets note=sea; no document has a value in that column"),
        ("note!=null", "no document meets note!=null; no document has a value in that column"),
        ("by.name>2010", "no document meets by.name>2010; no document has a value in that column"),
    ],
)  # fmt: skip
def test_why_nothing_is_found(index, caplog, filter, line):
    with caplog.at_level(logging.WARNING, "contrastive_st"):
        assert index.search(unit_vectors(1), filter=filter) == [[]]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(line)
    assert unmet(index, parse(filter))[0].startswith(line)


@pytest.mark.parametrize("filter", ["name>2010", "year=soon", {"name": 7}, {"topic": True}, "year>2020-05"])
def test_a_value_of_another_type_than_the_column_is_refused(index, filter):
    with pytest.raises(InputError, match=r"the column '(name|year|topic)' holds (text|numbers)"):
        index.search(unit_vectors(1), filter=filter)
    with pytest.raises(InputError, match="holds"):
        index.count(filter)


@pytest.mark.parametrize("filter", ["note=null", "note=sea,null", "by.name=null", {"by.name": None}])
def test_a_column_of_nulls_alone_is_known(index, filter):
    assert len(index.search(unit_vectors(1), filter=filter)[0]) == index.count(filter) == 3


def test_a_column_is_known_whose_last_value_has_gone(store):
    fill(store, [{"topic": "sea"}, {}])
    assert store.delete_matching("topic=sea") == 1
    assert len(store.search(unit_vectors(1), filter="topic=null")[0]) == 1
    with pytest.raises(InputError, match="the column 'topic' holds text"):
        store.search(unit_vectors(1), filter="topic>3")


def test_an_unknown_column_is_an_error(index):
    for filter in ("yaer=1", "yaer!=1", "yaer>1", "yaer=null", "note.yaer=null", "by.yaer=null", "topic=sea; yaer=1",
                   {"topic": "sea", "yaer": None}, Filter((parse("topic=sea"), parse("yaer=1")), "or")):  # fmt: skip
        with pytest.raises(InputError, match=r"'(note\.|by\.)?yaer'"):
            index.search(unit_vectors(1), filter=filter)


# --- Fusion


def test_the_half_that_tells_its_best_documents_apart_decides():
    ids = np.array([5, 3, 8, 1])
    sure, unsure = np.array([0.1, 0.2, 0.9, 0.3]), np.array([0.402, 0.401, 0.400, 0.403])
    assert fuse(ids, unsure, sure, 10)[0] == fuse(ids, sure, unsure, 10)[0] == 2
    assert [fuse(ids, sure, sure[::-1], length)[0] for length in (5, 20)] == [2, 1], "words, if the texts are long"
    assert fuse(ids, sure, np.zeros(4), 10) == [2, 3, 1, 0]
    assert fuse(ids, sure, np.zeros(4), 10, (ids[ids != 8],)) == [3, 1, 0, 2]
    assert fuse(ids, np.zeros(4), np.zeros(4), 10) == [3, 1, 0, 2], "of equal ones the lowest id"
    assert fuse(np.array([], np.int64), np.array([]), np.array([]), 0) == []
