"""The lowest score of a hit."""

import numpy as np
import pytest

from contrastive_st.cli import main
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.index import at_least

TEXTS = [f"the tide of {place} rises at {time}" for place in ("Lisbon", "Cork", "Brest", "Esbjerg")
         for time in ("dawn", "noon", "dusk", "night")]  # fmt: skip


def test_hits_below_it_are_left_out_and_counted():
    hits = ExactIndex(np.arange(4), TEXTS[:4], np.eye(4)).search(np.array([1.0, 2, 3, 4]), 4)[0]
    strong, notes = at_least(hits, 0.5)
    assert strong == [hit for hit in hits if hit.score >= 0.5]
    assert (len(strong), notes) == (2, ["left out: 2 of 4 hits, with a score below 0.50"])
    assert at_least(hits, None) == at_least(hits, -1.0) == (hits, [])


def test_the_command_says_what_it_leaves_out(tmp_path, capsys):
    (tmp_path / "corpus.csv").write_text("\n".join(["text", *TEXTS]))
    assert main(["index", str(tmp_path / "corpus.csv"), "--output", str(tmp_path / "shards")]) == 0
    search = ["search", "tide", "--store", str(tmp_path / "shards"), "-k", "3", "--min_score"]
    assert main([*search, "0.99"]) == 0
    assert "left out: 3 of 3 hits, with a score below 0.99\nno hits" in capsys.readouterr().err
    assert main([*search, "2"]) == 2
    assert "--min_score" in capsys.readouterr().err


def test_langchain_and_haystack_take_it(place):
    pytest.importorskip("langchain_core")
    pytest.importorskip("haystack")
    from contrastive_st.integrations.haystack import ContrastiveRetriever
    from contrastive_st.integrations.langchain import ContrastiveVectorStore

    store = ContrastiveVectorStore.from_texts(TEXTS, "static-minilm", where=place, ids=TEXTS)
    scores = [score for _, score in store.similarity_search_with_score("the tide in Cork", k=16)]
    kept = store.similarity_search_with_score("the tide in Cork", k=16, min_score=scores[4])
    assert [score for _, score in kept] == scores[:5]
    retriever = ContrastiveRetriever(place, top_k=16, min_score=scores[4])
    assert len(retriever.run(open_encoder().encode("the tide in Cork").tolist())["documents"]) >= 5
    retriever.close()
    store.store.close()
