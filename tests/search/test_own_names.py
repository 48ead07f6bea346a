"""Metadata come back as they were given, whatever their names; names are compared in one normal form."""

import json
import unicodedata

import numpy as np
import pytest
from store_places import new_store, unit_vectors

from contrastive_st.cli import main
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.documents import identified, open_corpus, texts_corpus
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.filters import as_filter
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.search.values import as_held, as_id, given_and_own

pytestmark = pytest.mark.slow
MINE = {"document": "contract 7", "part": "II", "_id": "x", "id": "y", "(id)": 1, "(part)": ["a"], "(given)": {"b": 2}}
#: A name in composed and in decomposed letters, and one that is neither
NAMES = ["Müller-Łódź", unicodedata.normalize("NFD", "Müller-Łódź"), "Việt ế", "Vie\u0323\u0302t \u00ea\u0301", "한글"]


@pytest.fixture(scope="module")
def place(place):
    with new_store(place, "kept"):
        yield place


@pytest.fixture
def shown(place, capsys):
    """The objects that a command prints."""

    def run(*command):
        capsys.readouterr()
        assert main([*map(str, command), "--store", place, "--json", "--quiet"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_parts_have_their_numbers_beside_the_metadata(place, shown, tmp_path):
    rows = tmp_path / "contracts.jsonl"
    rows.write_text(json.dumps({**MINE, "id": 1, "text": "The tide rises. The tide falls."}) + "\n")
    assert main(["index", str(rows), "--store", place, "--collection", "parts", "--split_into", "sentences"]) == 0
    hits = shown("search", "tide", "--collection", "parts")
    assert sorted((hit["text"], hit["(document)"], hit["(part)"]) for hit in hits) == [
        ("The tide falls.", 0, 1), ("The tide rises.", 0, 0)
    ]  # fmt: skip
    assert all(hit["metadata"] == {**MINE, "id": 1} for hit in hits)
    for condition, count in (
        ("part=II", 2),
        ("(part)=1", 1),
        ("document=contract 7; (part)=0", 1),
        ("(document)=0", 2),
    ):
        assert len(shown("search", "tide", "--collection", "parts", "--filter", condition)) == count, condition


@pytest.mark.parametrize(
    "id",
    ["talk-7", "2024-05-01 09:30", "007", "1e3", " 7 ", "8.0", " x ", "9" * 19, *NAMES[1:4], "a\0b", 9, "10"],
)  # fmt: skip
def test_an_id_is_the_same_in_every_way_to_write_it(place, id):
    """It is the one that was given, whatever texts the metadata have, and names the document."""
    given, vector = "a\ufffdb" if id == "a\0b" else 10 if id == "10" else id, unit_vectors(1)
    metadata = {"note": " ", "title": f" {id}", "sku": id, "z": f"{id} "}
    (row,) = identified(texts_corpus("rows", ["a text"], [metadata]), "sku").read()
    with VectorStore(place, "kept") as store:
        hits = ExactIndex([id], ["a text"], vector, [metadata]).get([id])
        for ids in ([id], np.array([id])):
            store.delete([id])
            assert store.upsert(ids, ["a text"], vector, [metadata])["new"] == 1
            hits += store.get([id])
        store.loader("rows", "1", own_ids=True, replace=True).add(
            0, (np.array([row.id]), ["a text"], [row.metadata], vector)
        )
        assert store.upsert([id], ["a text"], vector, [metadata])["unchanged"] == 1
        hits += store.get([id])
        store.set_metadata(id, {"n": 1})
        hits += store.get([id])
        store.upsert([hits[0].id], ["another"], vector)
        hits += store.get([id])
        for form in (id, *(unicodedata.normalize(form, str(id)) for form in ("NFC", "NFD"))):
            hits += store.get([form])
            assert store.count({"(id)": form}) == 1
        assert [(hit.id, hit.own_id) for hit in hits] == [(as_id(given), given)] * 9
        assert store.delete([given]) == 1


@pytest.mark.parametrize("kind", ["store", "exact"])
def test_metadata_come_back_as_given(place, kind):
    items = [MINE, {unicodedata.normalize("NFD", "Straße é"): NAMES}, {}]
    ids, texts = ["talk-7", "é", 3], ["a", "b", "c"]
    index = VectorStore(place, "kept") if kind == "store" else ExactIndex(ids, texts, unit_vectors(3), items)
    if kind == "store":
        index.upsert(ids, texts, unit_vectors(3), items)
    hits = index.get(ids)
    assert [(hit.own_id, hit.metadata) for hit in hits] == list(zip(ids, items, strict=True))
    assert [hit.metadata for hit in index.search(unit_vectors(3), 1)[0]] == [items[0]]
    assert {name for name in index.columns() if name[0] == "("} <= {"(document)", "(part)"}
    index.close()


def test_names_are_the_same_in_any_normal_form(place, shown, tmp_path, capsys):
    """As in an archive that a Mac made."""
    for number, name in enumerate(NAMES):
        folder = tmp_path / "notes" / f"{number}"
        folder.mkdir(parents=True)
        (folder / f"{unicodedata.normalize('NFD', name)}.txt").write_text(f"Tide {number} rises in the harbour.")
    at = ["--collection", "names"]
    assert main(["index", str(tmp_path / "notes"), "--store", place, *at]) == 0
    with open_index(place, "names") as index:
        for number, name in enumerate(NAMES):
            for form in ("NFC", "NFD"):
                file = unicodedata.normalize(form, f"{number}/{name}.txt")
                (hit,) = shown("search", "tide", *at, "--filter", f"file={file}")
                assert hit["metadata"]["file"] == unicodedata.normalize("NFD", file)
                assert [one.text for one in index.search(index.vectors([hit["id"]]), filter={"file": file})[0]] == [
                    hit["text"]
                ]
        assert index.count({"file": "nowhere"}) == 0
    condition = f"file={unicodedata.normalize('NFC', f'0/{NAMES[0]}.txt')}"
    assert main(["delete", "names", "--filter", condition, "--yes", "--store", place]) == 0
    assert len(shown("search", "tide", *at)) == len(NAMES) - 1


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_name_that_postgresql_cannot_store_is_the_same_in_a_store_and_in_shards(place, tmp_path, name):
    rows, shards = tmp_path / name, tmp_path / "shards"
    rows.write_text(json.dumps({"text": "a tide", "m\0k": 7}) if name == "rows.jsonl" else "text,m\0k\na tide,7\n")
    at = f"unstorable_{name[5:]}_names"
    assert main(["index", str(rows), "--store", place, "--collection", at, "--quiet"]) == 0
    assert main(["index", str(rows), "--output", str(shards), "--quiet"]) == 0
    for index in open_index(place, at), open_index(shards):
        assert (index.get([0])[0].metadata, index.types()) == ({"m\ufffdk": 7}, {"m\ufffdk": "number"})
        index.close()


def test_texts_and_columns_are_compared_in_the_same_form():
    composed, decomposed = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    for held in (as_held({decomposed: decomposed}), as_held({composed: composed})):
        assert as_filter({composed: decomposed}).holds(held)
        assert as_filter(f"{decomposed}={composed}").holds(held)
    assert given_and_own(as_held({decomposed: [decomposed]})) == ({decomposed: [decomposed]}, {})
    assert as_filter({"(text)": composed}).holds({"(text)": decomposed})


def test_adapters_leave_the_metadata_alone(place):
    pytest.importorskip("haystack"), pytest.importorskip("langchain_core")
    from haystack import Document
    from haystack.document_stores.types import DuplicatePolicy

    from contrastive_st.integrations.haystack import ContrastiveDocumentStore, ContrastiveRetriever
    from contrastive_st.integrations.langchain import ContrastiveVectorStore

    composed, name = (unicodedata.normalize(form, "Müller 7") for form in ("NFC", "NFD"))
    texts, at = ["the tide rises", "rain"], {"where": place, "collection": "chain"}
    chain = ContrastiveVectorStore.from_texts(texts, "static-minilm", [MINE, {}], ids=["a", name], **at)
    assert [(one.id, one.metadata) for one in chain.similarity_search("tide", filter={"_id": "x"})] == [("a", MINE)]
    scores = [score for _, score in chain.similarity_search_with_score("tide", k=9)]
    assert [score for _, score in chain.similarity_search_with_score("tide", k=9, min_score=scores[0])] == scores[:1]
    chain.add_texts(["snow", "rain"], [{}, {}], ids=["a ", "a"])  # the last text of an id counts
    assert [one.page_content for one in chain.get_by_ids(["a"])] == ["rain"]
    chain.close()

    hay = ContrastiveDocumentStore(where=place, collection="hay")
    hay.write_documents([Document(id="a", content="the tide rises", meta=MINE), Document(id=name, content="rain")])
    wanted = {"field": "meta._id", "operator": "==", "value": "x"}
    assert [(one.id, one.meta) for one in hay.filter_documents(wanted)] == [("a", MINE)]
    retriever = ContrastiveRetriever(place, "hay", min_score=0.99)
    assert len(retriever.run(open_encoder().encode("the tide rises").tolist())["documents"]) == 1
    retriever.close()
    again = Document(id=composed, content="snow")
    assert hay.write_documents([again], DuplicatePolicy.SKIP) == 0
    assert hay.write_documents([again, again], DuplicatePolicy.OVERWRITE) == 2
    hay.delete_documents([composed])
    assert hay.count_documents() == 1
    hay.close()


def test_front_matter_keeps_a_file_of_its_own(tmp_path):
    (tmp_path / "a.md").write_text("---\nfile: contract 7\n---\nThe tide rises.\n")
    (tmp_path / "b.md").write_text("The tide falls.\n")
    documents = open_corpus(str(tmp_path)).read()
    assert [document.metadata["file"] for document in documents] == ["contract 7", "b.md"]
