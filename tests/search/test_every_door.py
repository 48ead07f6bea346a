"""One filter finds the same documents by every door: Python, the commands, the page, the HTTP API."""

import io
import json
import sys

import pytest
from refusals import refused, told
from search_fakes import client_of

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.opening import open_encoder_for, open_index

DOCUMENTS = [
    {"id": 1, "text": "waves of the sea", "topic": "sea", "tags": ["sea", "wind"], "day": "1999-05-01"},
    {"id": 2, "text": "the sky at night", "topic": "sky", "tags": ["sky"], "day": "2004-01-01"},
    {"id": 3, "text": "taxes of the town", "topic": "town, old", "day": "2010-12-31"},
    {"id": 4, "text": "a whale in the sea", "topic": "sea", "tags": "whale"},
]
FILTERS = [
    (["topic!=sea", "topic!=sky"], [3]), (["topic=sea,sky"], [1, 2, 4]), (["topic=sea", "topic=sky"], []),
    (["tags=sea; tags=wind"], [1]), (["day>=2004", "day<2010"], [2]), (['topic="town, old"'], [3]),
    (["tags=null"], [3]),
]  # fmt: skip


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doors")
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DOCUMENTS))
    assert main(["index", str(folder / "c.jsonl"), "-o", str(folder / "shards"), "--columns", "text"]) == 0
    return str(folder / "shards")


@pytest.mark.parametrize(("conditions", "wanted"), FILTERS)
def test_the_commands_python_and_http(shards, api, capsys, conditions, wanted):
    flags = [part for condition in conditions for part in ("--filter", condition)]
    for command in (["search", "of the"], ["similar", "1"]):
        capsys.readouterr()
        out, err = told(capsys, *command, "--store", shards, "--json", "-k", "9", *flags)
        found = sorted(json.loads(line)["id"] for line in out.splitlines())
        assert found == [id for id in wanted if id != 1 or command[0] == "search"]
        assert found or "no hits" in err
    index = open_index(shards)
    vector = open_encoder_for(index).encode_query(["of the"])[0]
    for filter in (conditions, "; ".join(conditions)):
        assert sorted(hit.id for hit in index.search(vector, 9, filter=filter)[0]) == wanted
        answer = api.post("/search", json={"query": "of the", "k": 9, "filter": filter}).json()
        assert sorted(hit["id"] for hit in answer["hits"]) == wanted
        assert bool(answer["notes"]) is not bool(wanted)


@pytest.fixture(scope="module")
def api(shards):
    pytest.importorskip("fastapi", reason="the API needs the extra api")
    index = open_index(shards)
    with client_of(index, open_encoder_for(index)) as client:
        yield client


def test_what_cannot_match_is_said_by_every_door(shards, api, capsys, monkeypatch):
    line = "no document meets topic=see; the column has: sea, sky, town, old"
    assert "no hits" in told(capsys, "search", "of the", "--store", shards, "--filter", "topic=see").err
    assert api.post("/search", json={"query": "of the", "filter": {"topic": ["see"]}}).json()["notes"] == [line]
    unknown = "no document has a value in the column 'yaer'; the columns are: "
    assert unknown in refused(capsys, "search", "of the", "--store", shards, "--filter", "yaer!=1")
    answer = api.post("/search", json={"query": "of the", "filter": ["yaer!=1"]})
    assert 400 <= answer.status_code < 500
    assert unknown in json.dumps(answer.json(), ensure_ascii=False)
    silent = {"query": "\U0001f991", "filter": ["yaer=1"]}  # a query of which the model knows no token
    assert api.post("/search", json=silent).status_code == answer.status_code
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeff\U0001f991\n".encode())))
    assert "the tokens of '\U0001f991';" in refused(capsys, "search", "-", "--store", shards)
    with pytest.raises(InputError, match=unknown):
        open_index(shards).search(open_encoder_for(open_index(shards)).encode("x"), filter="yaer!=1")
