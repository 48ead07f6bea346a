"""Filters mean the same in Python and in a jsonpath; ranks are fused as the formula says."""

import math

import pytest

from contrastive_st.errors import InputError
from contrastive_st.search.index import (
    as_jsonpath,
    conditions,
    matches,
    parse_filter,
    reciprocal_rank_fusion,
    storable,
    storable_json,
)


@pytest.mark.parametrize(
    ("metadata", "filter", "wanted"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": ["x", "y"]}, {"a": "y"}, True),
        ({"a": "x"}, {"a": ["y", "x"]}, True),
        ({"a": 5}, {"a": {">=": 5, "<": 6}}, True),
        ({"a": 6}, {"a": {">=": 5, "<": 6}}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"a": {"!=": 3}}, True),
        ({}, {"a": {"!=": 3}}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ],
)
def test_matches(metadata, filter, wanted):
    assert matches(metadata, filter) is wanted


def test_hostile_keys_and_values_stay_inside_their_quotes():
    path = as_jsonpath({'a" || true) //': 'x" || $."b" == "y', "n\0l": "a\0b"})
    assert path == '($."a\\" || true) //" == "x\\" || $.\\"b\\" == \\"y") && ($."n\ufffdl" == "a\ufffdb")'


@pytest.mark.parametrize("filter", [{"a": {"~": 1}}, {"a": []}, {"a": object()}, {"a": math.nan}, ["a"]])
def test_unknown_filters_are_named(filter):
    with pytest.raises(InputError, match="filter"):
        conditions(filter)


def test_filters_of_the_command_line():
    assert parse_filter(["a=7", "b=x y", "c>=1.5", "c<2"]) == {"a": [7, "7"], "b": ["x y"], "c": {">=": 1.5, "<": 2}}
    assert parse_filter(["a=NaN", "b=[1]", "c=" + "[" * 100_000]) == {"a": ["NaN"], "b": ["[1]"], "c": ["[" * 100_000]}
    for wrong in (["a"], ["=3"], ["a=1", "a>2"], ["a>2", "a=1"]):
        with pytest.raises(InputError, match="--filter"):
            parse_filter(wrong)


def test_reciprocal_rank_fusion_is_the_sum_of_reciprocal_ranks():
    rankings = [[4, 2, 9], [9, 7], [2]]
    plain = {}
    for ranking in rankings:
        for i in range(len(ranking)):
            plain[ranking[i]] = plain.get(ranking[i], 0) + 1 / (60 + i + 1)
    assert reciprocal_rank_fusion(rankings) == sorted(plain, key=lambda id: (-plain[id], id))
    assert reciprocal_rank_fusion([]) == []


def test_what_postgresql_cannot_hold_is_replaced():
    assert storable("a\0b\ud83d") == "a\ufffdb\ufffd"
    assert storable("😀 ok") == "😀 ok"
    assert storable_json({"k\0": ["a\0", 1, {"x": "\udc00"}]}) == {"k\ufffd": ["a\ufffd", 1, {"x": "\ufffd"}]}
