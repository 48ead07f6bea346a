"""Full text has the language of the collection: the recorded one, that of the stop words, or none."""

import json

import pytest
from store_places import by_words, new_store, unit_vectors

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.lexemes import lexemes_of
from contrastive_st.search.opening import open_index

pytestmark = pytest.mark.slow

GERMAN = [
    "Die Häuser stehen am Rand des Waldes und sind sehr alt.", "Wir gingen gestern durch die Stadt, weil es schön war.",
    "Der Hund schläft unter dem Tisch in der Küche.", "Das Wetter war gut, und die Kinder spielten auf der Wiese.",
    "Im Winter fahren die Züge nicht, wenn der Schnee zu hoch liegt.", "Sie hat das Buch in einer Nacht gelesen.",
]  # fmt: skip
ENGLISH = ["The houses stand at the edge of the wood and are old.", "We went through the town because it was nice."]


def filled(place, name, texts, **options):
    store = new_store(place, name)
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


@pytest.mark.parametrize(
    ("language", "forms", "lexeme"),
    [("hindi", "किताबों किताब", "किताब"), ("nepali", "केटाहरू केटा", "केटा"), ("tamil", "வீடுகள் வீடு", "வீடு"),
     ("arabic", "كِتَابٌ كتاب", "كتاب"), ("turkish", "İstanbul istanbul i\u0307stanbul", "istanbul"),
     ("english", "houses2 houses2", "houses2")],
)  # fmt: skip
def test_words_with_vowel_signs_and_dots_are_stemmed_as_postgresql_does(language, forms, lexeme):
    assert set(lexemes_of(forms, language)) == {lexeme}


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
    corpus.write_text("".join(json.dumps({"id": f"t-{i}", "text": text}) + "\n" for i, text in enumerate(GERMAN)))

    def index(*flags):
        code = main(["index", str(corpus), "--store", place, "--collection", "german", *flags])
        return code, capsys.readouterr().err

    code, said = index("--model", "model_cards/minilm-1-layer")
    assert (code, "full text: german (--language changes it)" in said) == (0, True)
    code, said = index()
    assert (code, "model: minilm-1-layer, which made collection 'german'" in said) == (0, True), said
    code, said = index("--language", "simple")
    assert (code, "full text: simple" in said) == (0, True)
    with open_index(place, "german") as store:
        assert store.now().language == "simple"
    assert index("--language", "klingon")[0] == 2
    assert main(["search", "Buch", "--store", place, "--collection", "german", "--json", "--hybrid"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["id"] == "t-5"
