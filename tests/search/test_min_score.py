"""The lowest score of a hit: by number, and by what sentences from elsewhere find."""

import numpy as np
import pytest

from contrastive_st.cli import main
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.floor import Floors, above, below, describe_scores, floor, foreign_scores, foreign_sentences

TEXTS = [f"the tide of {place} rises at {time}" for place in ("Lisbon", "Cork", "Brest", "Esbjerg")
         for time in ("dawn", "noon", "dusk", "night")]  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return open_encoder()


@pytest.fixture(scope="module")
def index(encoder):
    return ExactIndex(np.arange(len(TEXTS)), TEXTS, encoder.encode(TEXTS, normalize_embeddings=True))


def test_auto_lets_one_foreign_sentence_in_twenty_pass(index, encoder):
    scores = foreign_scores(index, encoder)
    assert len(scores) == len(foreign_sentences()) == 100
    lowest = floor(index, encoder, "auto")
    assert (scores >= lowest).sum() == 5
    best = [encoder.similarity(text, TEXTS).max() for text in foreign_sentences()]
    assert np.allclose(np.sort(best), np.sort(scores), atol=1e-5)
    hits = index.search(encoder.encode(["when does the tide rise in Cork"])[0], 16)[0]
    kept = above(hits, lowest)
    assert kept == [hit for hit in hits if hit.score >= lowest]
    assert len(kept) > 0
    assert Floors()("name", index, encoder, "auto") == lowest


def test_a_number_is_taken_as_it_is(index, encoder):
    assert floor(index, None, None) is None
    assert floor(index, None, "0.25") == floor(index, None, 0.25) == 0.25
    hits = index.search(encoder.encode(["tide"])[0], 16)[0]
    assert above(hits, 2.0) == []
    assert below(hits, 2.0) == ["left out: 16 of 16 hits, with a score below 2.00"]
    assert below(hits, None) == below(hits, -1.0) == []
    with pytest.raises(ValueError, match="could not convert"):
        floor(index, None, "high")


def test_the_command_says_what_it_leaves_out(tmp_path, capsys):
    (tmp_path / "corpus.csv").write_text("\n".join(["text", *TEXTS]))
    assert main(["index", str(tmp_path / "corpus.csv"), "--output", str(tmp_path / "shards")]) == 0
    assert main(["search", "tide", "--store", str(tmp_path / "shards"), "-k", "3", "--min_score", "0.99"]) == 0
    assert "left out: 3 of 3 hits, with a score below 0.99\nno hits" in capsys.readouterr().err


def test_what_scores_mean_is_told(index, encoder):
    shown = describe_scores(index, encoder)
    assert list(shown) == ["random documents", "nearest document", "foreign sentences"]
    near, foreign = (float(shown[what].split()[3].rstrip(",")) for what in ("nearest document", "foreign sentences"))
    assert near > foreign
    assert describe_scores(ExactIndex([1], ["one"], np.eye(1)), encoder) == {}


def test_langchain_and_haystack_take_it(encoder):
    pytest.importorskip("langchain_core")
    pytest.importorskip("haystack")
    from store_places import store_place

    from contrastive_st.integrations.haystack import ContrastiveRetriever
    from contrastive_st.integrations.langchain import ContrastiveVectorStore

    with store_place() as folder:
        store = ContrastiveVectorStore.from_texts(TEXTS, "static-minilm", where=str(folder), ids=TEXTS)
        scores = [score for _, score in store.similarity_search_with_score("the tide in Cork", k=16)]
        kept = store.similarity_search_with_score("the tide in Cork", k=16, min_score=scores[4])
        assert [score for _, score in kept] == scores[:5]
        assert len(store.similarity_search("the tide in Cork", k=16, min_score="auto")) > 0
        assert store.similarity_search("quarterly tax returns", k=16, min_score="auto") == []
        vector = encoder.encode("the tide in Cork").tolist()
        for asked, many in ((scores[4], 5), ("auto", 1)):
            retriever = ContrastiveRetriever(str(folder), top_k=16, min_score=asked)
            assert len(retriever.run(vector)["documents"]) >= many
            retriever.close()
        store.store.close()
