"""Full text has the language of the collection: the recorded one, that of the stop words, or none."""

import json

import pytest
from store_places import by_words, unit_vectors

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow

GERMAN = [
    "Die Häuser stehen am Rand des Waldes und sind sehr alt.", "Wir gingen gestern durch die Stadt, weil es schön war.",
    "Der Hund schläft unter dem Tisch in der Küche.", "Das Wetter war gut, und die Kinder spielten auf der Wiese.",
    "Im Winter fahren die Züge nicht, wenn der Schnee zu hoch liegt.", "Sie hat das Buch in einer Nacht gelesen.",
]  # fmt: skip
ENGLISH = ["The houses stand at the edge of the wood and are old.", "We went through the town because it was nice."]


def filled(place, name, texts, **options):
    store = VectorStore.create(place, name, model="m", fingerprint="f", dimension=8)
    store.upsert(range(len(texts)), texts, unit_vectors(len(texts)))
    store.build_index("none", **options)
    return store


@pytest.mark.parametrize(
    ("name", "texts", "language"),
    [("de", GERMAN, "german"), ("en", ENGLISH, "english"), ("zh", ["我们昨天走过城市"], "simple"),
     ("none", [], "simple"), ("titles", ["quarterly report 2024", "annual budget"], "simple")],
)  # fmt: skip
def test_the_stop_words_tell_the_language(place, name, texts, language):
    with filled(place, name, texts) as store:
        assert store.now().language == language
        assert store.now().describe()["full text"] == language
        store.build_index("none", language="french")
        store.build_index("none")
        assert store.now().language == "french"
        with pytest.raises(InputError, match="'klingon'"):
            store.build_index("none", language="klingon")


def test_a_german_query_finds_other_forms_of_its_words_and_compounds(place):
    """By the words alone: the vector of the query is far from all documents."""
    with filled(place, "forms", GERMAN) as store:
        assert by_words(store, "das Haus und der Wald")[0] == 0
        assert by_words(store, "Kind") == [3]
        assert by_words(store, "Bücher") == [5]
        store.build_index("none", language="simple")
        assert by_words(store, "Kinder") == [3]
        assert by_words(store, "Kind") == []
        store.build_index("none", language="german")
        store.upsert([9], ["Die Donaudampfschifffahrtsgesellschaft sucht Personal."], unit_vectors(1))
        assert by_words(store, "Gesellschaft") == by_words(store, "Schifffahrt") == [9]


def test_index_records_the_language_and_the_model(place, tmp_path, capsys):
    corpus = tmp_path / "corpus.jsonl"

    def index(rows, *flags):
        corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code = main(["index", str(corpus), "--store", place, "--collection", "german", *flags])
        return code, capsys.readouterr().err

    rows = [{"id": f"t-{i}", "text": text} for i, text in enumerate(GERMAN)]
    model = "model_cards/minilm-1-layer"
    code, said = index(rows, "--model", model)
    assert (code, "full text: german (--language changes it)" in said) == (0, True)
    code, said = index([{**rows[0], "text": "Ein neuer Satz."}, *rows[1:], {"id": "t-9", "text": "Noch einer."}])
    assert code == 0, said
    assert "model: minilm-1-layer, which made collection 'german'" in said
    assert "1 of 7 rows added, 1 updated, 5 unchanged" in said
    code, said = index(rows, "--language", "simple")
    assert (code, "full text: simple" in said) == (0, True)
    with open_index(place, "german") as store:
        assert store.now().language == "simple"
    assert index(rows, "--language", "klingon")[0] == 2
    assert main(["search", "Satz", "--store", place, "--collection", "german", "--json", "--hybrid"]) == 0
    assert {json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()} >= {"t-1", "t-9"}


def test_shards_and_upserts_that_change_rows_are_counted_as_updates(place, tmp_path, capsys):
    corpus = tmp_path / "corpus.jsonl"
    for texts, said in (
        (["one cat", "two dogs"], "2 of 2 rows added, 0 updated, 0 unchanged"),
        (["one cat", "three dogs", "a bird"], "1 of 3 rows added, 1 updated, 1 unchanged"),
    ):
        corpus.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
        folder = tmp_path / f"shards-{len(texts)}"
        assert main(["index", str(corpus), "--output", str(folder)]) == 0
        capsys.readouterr()
        assert main(["index", str(folder), "--store", place, "--collection", "parts"]) == 0
        assert said in capsys.readouterr().err
    with filled(place, "counted", ["a", "b"]) as store:
        assert store.upsert([0, 1, "x"], ["a", "c", "d"], unit_vectors(3)) == {"new": 1, "changed": 1, "unchanged": 1}
        assert [hit.own_id for hit in store.get(["x", 1])] == ["x", 1]
