"""One filter finds the same documents by every door: Python, the commands, the page, the HTTP API."""

import json

import pytest
from search_fakes import WordEncoder, topic_index

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.opening import open_encoder_for, open_index

DOCUMENTS = [
    {
        "id": 1,
        "text": "waves of the sea",
        "topic": "sea",
        "tags": ["sea", "wind"],
        "year": 1999,
        "day": "1999-05-01",
        "draft": True,
    },
    {
        "id": 2,
        "text": "the sky at night",
        "topic": "sky",
        "tags": ["sky"],
        "year": 2004,
        "day": "2004-01-01",
        "draft": True,
    },
    {"id": 3, "text": "taxes of the town", "topic": "town, old", "year": 2010, "day": "2010-12-31", "draft": False},
    {"id": 4, "text": "a whale in the sea", "topic": "sea", "tags": "whale", "note": None},
]
FILTERS = [
    (["topic!=sea", "topic!=sky"], [3]), (["topic=sea,sky"], [1, 2, 4]), (["topic=sea", "topic=sky"], []),
    (["tags!=sea"], [2, 4]), (["tags=sea; tags=wind"], [1]), (["year>=2000", "year>2004"], [3]),
    (["year<=2010", "year<2010", "year<2005"], [1, 2]), (["day>=2004"], [2, 3]), (["day<=2004"], [1, 2]),
    (["draft=true"], [1, 2]), (['topic="town, old"'], [3]), (["tags=null"], [3]), (["year!=2004,1999"], [3]),
]  # fmt: skip


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doors")
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DOCUMENTS))
    assert main(["index", str(folder / "c.jsonl"), "-o", str(folder / "shards"), "--columns", "text"]) == 0
    return str(folder / "shards")


@pytest.mark.parametrize(("conditions", "wanted"), FILTERS)
def test_the_commands(shards, capsys, conditions, wanted):
    flags = [part for condition in conditions for part in ("--filter", condition)]
    for command in (["search", "of the"], ["similar", "1"]):
        capsys.readouterr()
        assert main([*command, "--store", shards, "--json", "-k", "9", *flags]) == 0
        out, err = capsys.readouterr()
        found = sorted(json.loads(line)["id"] for line in out.splitlines())
        assert found == [id for id in wanted if id != 1 or command[0] == "search"]
        assert found or "no hits" in err


@pytest.mark.parametrize(("conditions", "wanted"), FILTERS)
def test_python_and_http(shards, api, conditions, wanted):
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
    from starlette.testclient import TestClient

    from contrastive_st.serve.api import IndexServed, Served, make_api

    index = open_index(shards)
    served = Served(open_encoder_for(index))
    with TestClient(
        make_api({"m": served}, {"docs": IndexServed(index, served)}), base_url="http://localhost"
    ) as client:
        yield client


def test_what_cannot_match_is_said_by_every_door(shards, api, capsys):
    line = "no document meets topic=see; the column has: sea, sky, town, old"
    assert main(["search", "of the", "--store", shards, "--filter", "topic=see"]) == 0
    assert "no hits" in capsys.readouterr().err
    assert api.post("/search", json={"query": "of the", "filter": {"topic": ["see"]}}).json()["notes"] == [line]
    unknown = "no document has a value in the column 'yaer'; the columns are: "
    assert main(["search", "of the", "--store", shards, "--filter", "yaer!=1"]) == 2
    assert unknown in capsys.readouterr().err
    refused = api.post("/search", json={"query": "of the", "filter": ["yaer!=1"]})
    assert 400 <= refused.status_code < 500
    assert unknown in json.dumps(refused.json(), ensure_ascii=False)
    silent = {"query": "\U0001f991", "filter": ["yaer=1"]}  # a query of which the model knows no token
    assert api.post("/search", json=silent).status_code == refused.status_code
    with pytest.raises(InputError, match=unknown):
        open_index(shards).search(open_encoder_for(open_index(shards)).encode("x"), filter="yaer!=1")


def test_the_page():
    from contrastive_st.serve.session import SearchSession, Source

    encoder = WordEncoder()
    session = SearchSession([Source("one", topic_index(encoder=encoder), encoder)])
    find = lambda filter: session.answer("one", "tide", 50, filter)
    assert {hit.metadata["topic"] for hit in find("topic!=sea; topic!=kitchen").hits} == {"space"}
    assert {hit.metadata["topic"] for hit in find("topic=sea,space").hits} <= {"sea", "space"}
    assert find("topic=see").notes == ["no document meets topic=see; the column has: kitchen, sea, space"]
    with pytest.raises(InputError, match="'yaer'"):
        find("yaer=1")
