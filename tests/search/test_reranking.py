"""A cross-encoder reorders the first hits: in Python, the command, the API and the page, as sentence-transformers."""

import json
import math

import numpy as np
import pytest
import torch
from refusals import refused, told
from search_fakes import client_of
from transformers import BertConfig, BertForSequenceClassification, BertModel

from contrastive_st import InputError, SentenceEncoder, open_index, rerank
from contrastive_st.cli import main
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.search.index import Hit
from contrastive_st.search.reranking import CrossEncoder, unscored

TEXTS = ["tides rise twice a day", "the moon pulls the sea", "a dog barks " * 200, "", "日本語 rain"]
QUERY = "which tide rose"


def saved(folder, labels=1, kind=BertForSequenceClassification, **config):
    tokenizer = load_tokenizer("model_cards/minilm-1-layer")
    model = kind(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=64, num_labels=labels, initializer_range=0.5, **config,
        )
    )  # fmt: skip
    model.save_pretrained(folder), tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    return saved(tmp_path_factory.mktemp("models") / "cross")


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
@pytest.mark.parametrize("by", ["transformers", "sentence-transformers"])
def test_scores_are_those_of_sentence_transformers(activation, by, folder, tmp_path):
    peer = pytest.importorskip("sentence_transformers").CrossEncoder
    pairs = [(query, text) for query in ("why do tides rise", "日本") for text in TEXTS]
    source = str(tmp_path / "saved")
    if by == "sentence-transformers":
        peer(folder, activation_fn=getattr(torch.nn, activation)(), max_length=20).save_pretrained(source)
    else:
        module = {"Sigmoid": "activation", "Identity": "linear"}[activation]
        saved(source, sentence_transformers={"activation_fn": f"torch.nn.modules.{module}.{activation}"})
    scores = CrossEncoder(source).predict(pairs)
    assert np.ptp(scores) > 0.01
    np.testing.assert_allclose(scores, peer(source).predict(pairs, show_progress_bar=False), atol=1e-5)


@pytest.mark.parametrize("texts", [
    {"max_seq_length": 9}, {"max_seq_length": 9, "processing_kwargs": {"text": {"max_length": 7, "truncation": True}}},
    {"processing_kwargs": {"text": {"max_length": 90}}},
])  # fmt: skip
def test_a_recorded_length_is_that_of_the_texts(texts, folder, tmp_path, shards, capsys):
    peer = pytest.importorskip("sentence_transformers").CrossEncoder
    source = tmp_path / "saved"
    peer(folder, max_length=12).save_pretrained(str(source))
    path = source / "sentence_bert_config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | texts))
    pairs = [("why do tides rise", "the town was quiet " * count) for count in (1, 3, 9)]
    if texts.get("max_seq_length"):
        assert np.ptp([CrossEncoder(one).predict(pairs)[2] for one in (source, folder)]) > 1e-3
    np.testing.assert_allclose(CrossEncoder(source).predict(pairs), peer(str(source)).predict(pairs), atol=1e-5)
    path.write_text(json.dumps(about | {"processing_kwargs": {"text": {"padding": "max_length"}}}))
    assert "processing_kwargs" in refused(capsys, "search", QUERY, "--store", shards, "--rerank", str(source))


def test_what_is_no_cross_encoder_with_one_score_is_refused(folder, tmp_path, shards, capsys):
    models = {
        "3 scores": saved(tmp_path / "nli", labels=3),
        "Tanh": saved(tmp_path / "tanh", sentence_transformers={"activation_fn": "torch.nn.modules.activation.Tanh"}),
        "classifier": saved(tmp_path / "encoder", kind=BertModel),
        "no_such": str(tmp_path / "no_such"),
        "pickle": saved(tmp_path / "pickled"),
    }
    (tmp_path / "pickled/model.safetensors").rename(tmp_path / "pickled/pytorch_model.bin")
    prompted = saved(tmp_path / "prompted")
    (tmp_path / "prompted/config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    for message, model in {**models, "prompt": prompted}.items():
        assert message in refused(capsys, "search", QUERY, "--store", shards, "--rerank", model)


def test_a_score_that_is_no_number_is_refused():
    class Broken:
        def predict(self, pairs, show_progress_bar):
            return [9.0, float("nan"), 1.0][: len(pairs)]

    with pytest.raises(InputError, match="NaN"):
        rerank("tide", [Hit(number, 0.5, "a") for number in range(3)], Broken())


def test_hits_without_a_score_come_last_and_are_counted():
    class Length:
        def predict(self, pairs, show_progress_bar):
            return [float(text) for _, text in pairs]

    hits = [Hit(i, 0.5, str(i)) for i in range(100)]
    for options, scored in (({"top": 90, "seconds": -1}, 16), ({"top": 20}, 20), ({"top": 200}, 100)):
        found = rerank("q", hits, Length(), **options)
        assert [hit.id for hit in found] == [*range(scored - 1, -1, -1), *range(scored, 100)]
        assert [math.isnan(hit.score) for hit in found] == [False] * scored + [True] * (100 - scored)
        assert "".join(unscored(found)).startswith(f"{100 - scored} of 100" if scored < 100 else "")
    assert rerank("q", [], Length()) == []


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    rows = [{"text": f"the tide of day {i} rose {i * i} times" + " again" * (i % 90), "day": i} for i in range(60)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def shards(corpus):
    assert main(["index", str(corpus / "a.jsonl"), "--output", str(corpus / "shards")]) == 0
    return str(corpus / "shards")


@pytest.fixture(scope="module")
def store(corpus, place):
    assert main(["index", str(corpus / "a.jsonl"), "--store", place]) == 0
    return place


@pytest.mark.parametrize(("where", "hybrid"), [("shards", False), ("store", True)])
def test_every_way_of_asking_gives_the_order_of_the_cross_encoder(where, hybrid, folder, request, capsys):
    """The hits are those of the first stage, by the scores of the second."""
    from contrastive_st.serve.session import SearchSession, Source

    source, encoder, cross = request.getfixturevalue(where), SentenceEncoder(), CrossEncoder(folder)
    index = open_index(source)
    text = QUERY if hybrid else None

    def wanted(top, filter=None):
        first = index.search(encoder.encode_query([QUERY])[0], 100, filter=filter, text=text)[0]
        scores = cross.predict([(QUERY, hit.text) for hit in first[:top]])
        order = np.argsort(-scores, kind="stable")[:5]
        return [(first[i].own_id, pytest.approx(float(scores[i]), abs=1e-6)) for i in order]

    def printed(*words):
        capsys.readouterr()
        asked = ["search", QUERY, "--store", source, "-k", "5", "--json", "--rerank", folder, *words]
        rows = [json.loads(line) for line in told(capsys, *asked, *["--hybrid"] * hybrid).out.splitlines()]
        return [(row["id"], row["score"]) for row in rows]

    assert [id for id, _ in wanted(20)] != [id for id, _ in wanted(50)]
    assert printed() == wanted(50)
    assert printed("--rerank_top", "20") == wanted(20)
    assert printed("--filter", "day<3") == wanted(50, "day<3")
    assert printed("--filter", "day=99") == []
    assert [score for _, score in printed("--rerank_top", "2")][2:] == [None] * 3

    asked = {"query": QUERY, "k": 5, "rerank_top": 20, "hybrid": hybrid}
    with client_of(index, encoder, cross_encoder=cross) as client:
        rows = client.post("/search", json=asked).json()["hits"]
        assert client.post("/search", json={**asked, "filter": ["day=99"]}).json()["hits"] == []
    assert [(row["id"], row["score"]) for row in rows] == wanted(20)
    with client_of(index, encoder) as client:
        answer = client.post("/search", json=asked)
    assert answer.status_code == 404
    assert "--rerank" in answer.text
    hits = SearchSession([Source("i", index, encoder)], cross).answer("i", QUERY, 5, hybrid=hybrid).hits
    assert [(hit.own_id, hit.score) for hit in hits] == wanted(50)
    index.close()


def test_half_characters(folder):
    assert np.isfinite(CrossEncoder(str(folder)).predict([("cat \ud83d", "a cat"), ("a", "\ud83d")])).all()
