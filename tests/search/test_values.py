"""Ids, texts and metadata are checked once, where they enter an index, by Python and by the commands alike."""

import datetime as dt
import json
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from refusals import refusal, told
from store_places import new_store, unit_vectors

from contrastive_st import paraphrase_mining
from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.index import check_k
from contrastive_st.search.values import as_ids, json_id, plain

pytestmark = pytest.mark.slow

BIG = (1 << 53) + 1


@pytest.fixture(scope="module")
def store(place):

    with new_store(place, "docs") as opened:
        opened.upsert([1, 2, 3], ["a", "b", "c"], unit_vectors(3), [{"n": 1}, {"n": 2}, {"n": 3}])
        yield opened


def exact(*given):
    return ExactIndex(*given[:2], unit_vectors(len(given[1])), *given[2:])


@pytest.mark.parametrize("wrong", ["12", [3.9], [float("nan")], [1e300], [True], [None], 3, {3: 1}, b"3", [""],
                                   np.array([3.5]), [1 << 63], np.array([True]), [[1]], [np.float32(0.5)]])  # fmt: skip
def test_ids_are_integers_or_texts(store, wrong):
    for call in (as_ids, store.delete, store.get, store.vectors, exact([1], ["a"]).get,
                 lambda ids: store.upsert(ids, ["x"], unit_vectors(1)), lambda ids: exact(ids, ["x"])):  # fmt: skip
        with refusal(r"not an id|give a list"):
            call(wrong)
    assert sorted(hit.text for hit in store.get([1, 2, 3])) == ["a", "b", "c"]


def test_one_document_is_named_by_any_form_of_its_id(store):
    for id in (2, "2", np.int64(2), np.uint8(2), " 2", 2.0, "2.0", np.float32(2)):
        assert store.get([id])[0].text == "b"
        assert exact([1, 2, 3], ["a", "b", "c"]).get([id])[0].text == "b"
        assert 2 not in {hit.id for hit in store.similar(id)}
    store.upsert(["talk-7"], ["seven"], unit_vectors(1, seed=7))
    (hit,) = store.get(["talk-7"])
    assert (hit.text, hit.metadata, hit.own_id) == ("seven", {}, "talk-7")
    assert exact(["talk-7"], ["x"], [{"id": "own"}]).get(["talk-7"])[0].metadata == {"id": "own"}
    assert store.delete(["talk-7"]) == 1


def test_a_text_is_not_a_list_of_texts(store):
    for call in (lambda: store.upsert([100, 101], "ab", unit_vectors(2)), lambda: exact([1, 2], "ab"),
                 lambda: paraphrase_mining(lambda texts: np.eye(len(texts)), "abc")):  # fmt: skip
        with pytest.raises(InputError, match=r"(texts|sentences): give a list"):
            call()
    with pytest.raises(InputError, match="element"):
        store.upsert([100, 101], ["a", None], unit_vectors(2))
    assert len(store) == 3


# --- Metadata


def test_what_json_cannot_hold_is_converted(store):
    given = {
        "datetime": dt.datetime(2024, 5, 1, 9, 30), "date": dt.date(2024, 5, 1), "time": dt.time(9, 30),
        "zone": dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc), "decimal": Decimal("1.50"), "whole": Decimal("3"),
        "int64": np.int64(4), "float32": np.float32(0.5), "bool": np.bool_(True), "day": np.datetime64("2024-05-01"),
        "array": np.arange(3), "nan": float("nan"), "inf": [1.0, float("inf")], "no": Decimal("NaN"), "set": {"b", "a"},
        "tuple": (1, None), "object": {"a": {1: dt.date(2024, 1, 1)}}, "uuid": UUID(int=1), "str": np.str_("s"),
        "nul": "a\\0b\ud83d".replace("\\0", "\0"), "mixed": np.array([1, "a", None], dtype=object),
        "days": np.array(["2024-05-01", "NaT"], dtype="datetime64[D]"),
    }  # fmt: skip
    wanted = {
        "datetime": "2024-05-01T09:30:00", "date": "2024-05-01", "time": "09:30:00",
        "zone": "2024-05-01T00:00:00+00:00",
        "decimal": 1.5, "whole": 3, "int64": 4, "float32": 0.5, "bool": True, "day": "2024-05-01", "array": [0, 1, 2],
        "nan": None, "inf": [1.0, None], "no": None, "set": ["a", "b"], "tuple": [1, None],
        "object": {"a": {"1": "2024-01-01"}}, "uuid": "00000000-0000-0000-0000-000000000001", "str": "s",
        "nul": "a\ufffdb\ufffd", "mixed": [1, "a", None], "days": ["2024-05-01", None],
    }  # fmt: skip
    assert plain(given) == wanted
    store.upsert([50], ["x"], unit_vectors(1, seed=50), [given])
    index = exact([50], ["x"], [given])
    for at in (store, index):
        assert at.get([50])[0].metadata == wanted
        for filter in ("date>=2024-04; date<2024-06", {"date": dt.date(2024, 5, 1)}, "decimal>1; whole=3", "array=2",
                       "object.a.1<2025", "nan=null; bool=true",
                       {"int64": np.int64(4), "decimal": Decimal("1.5")}):  # fmt: skip
            assert at.count(filter) == 1, filter
    store.set_metadata(50, {"day": dt.date(2025, 1, 1)})
    assert store.get([50])[0].metadata == {"day": "2025-01-01"}
    store.delete([50])


@pytest.mark.parametrize("wrong", [[None], {"a": 1}, "x", [["a", 1]], [{"a": object()}], [{"a": b"x"}], [{}, {}], [5],
                                   [{"a": 1j}]])  # fmt: skip
def test_other_metadata_is_refused_in_one_line(store, wrong):
    for call in (lambda: store.upsert([60], ["x"], unit_vectors(1), wrong), lambda: exact([60], ["x"], wrong)):
        with refusal("metadata"):
            call()
    assert store.columns() == ["n"]
    assert store.known([60]) == []


def test_commands_keep_what_json_lines_can_say(tmp_path, capsys):
    """NaN, and numbers too large for a float: what Python's JSON reads and JSON has not; JavaScript has no such id."""
    assert [json_id(id) for id in (5, -5, BIG, -BIG)] == [5, -5, str(BIG), str(-BIG)]
    rows = ['{"id": 9007199254740993, "text": "the sea", "score": NaN, "day": "2024-05-01", "big": 1e999}',
            '{"id": 2, "text": "the sea at night", "score": 2.5, "day": "2023-05-01"}']  # fmt: skip
    (tmp_path / "c.jsonl").write_text("\n".join(rows))
    told(capsys, "index", tmp_path / "c.jsonl", "-o", tmp_path / "shards")
    assert main(["search", "sea", "--store", str(tmp_path / "shards"), "--json", "--filter", "day>=2024"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["id"] == str(BIG)


@pytest.mark.parametrize("k", [0, 2.5, "3", True, None, float("nan")])
def test_the_number_of_hits_is_an_integer(k):
    with pytest.raises(InputError, match="number"):
        check_k(k)
