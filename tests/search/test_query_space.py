"""Queries of a student on an index of its teacher: what is recorded, what is taken, and what is refused."""

import json

import numpy as np
import pytest
from fastapi.testclient import TestClient

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.models.linear_map import LinearMap
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.query_space import QuerySpace, align
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.opening import encoder_of, open_encoder_for
from contrastive_st.vectors import unit_vectors

pytestmark = pytest.mark.slow

WORDS = [f"{a}{b}" for a in "bcdfghjklmnp" for b in ("ar", "el", "in", "ox", "um")]
TEXTS = [" ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(1, 7)) for i in range(300)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A teacher and a student whose vectors are the teacher's after a rotation and a loss of dimensions."""
    from contrastive_st.data import train_wordpiece
    from contrastive_st.models.static_encoder import StaticEncoder

    folder = tmp_path_factory.mktemp("models")
    tokenizer = train_wordpiece(TEXTS, vocab_size=200, max_length=16)
    table = np.random.default_rng(0).standard_normal((len(tokenizer), 12)).astype(np.float32)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0].astype(np.float32)
    for name, own in (("teacher", table), ("student", table @ rotation[:, :11]), ("stranger", table[::-1].copy())):
        StaticEncoder.from_table(own, True).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    teacher = open_encoder(folder / "teacher")
    align(folder / "student", teacher, TEXTS, unit_vectors(teacher.encode(TEXTS)))
    return folder


@pytest.fixture(scope="module")
def index(models):
    teacher = open_encoder(models / "teacher")
    vectors = unit_vectors(teacher.encode(TEXTS))
    return ExactIndex(range(len(TEXTS)), TEXTS, vectors, None, teacher.fingerprint, str(models / "teacher"))


def test_a_student_queries_its_teachers_index(models, index):
    student, teacher = open_encoder(models / "student"), open_encoder(models / "teacher")
    space, lift = QuerySpace.of(student)
    assert space.fingerprint == teacher.fingerprint
    assert lift.matrix.shape == (12, 12)
    encoder = open_encoder_for(index, models / "student")
    own, theirs = unit_vectors(encoder.encode_query(TEXTS)), unit_vectors(teacher.encode(TEXTS))
    cosines = (own * theirs).sum(1)
    assert space.agreement == pytest.approx(cosines.mean(), abs=0.02)
    assert space.agreement > 0.9
    assert encoder.encode_query("barcel").shape == (12,)
    assert encoder.dimension == 12
    assert encoder.fingerprint == student.fingerprint  # so it does not write documents
    found = index.search(own[:50], 1)
    assert np.mean([hits[0].text == text for hits, text in zip(found, TEXTS, strict=False)]) > 0.9


def test_others_are_refused_as_before(models, index):
    with pytest.raises(InputError, match="the index has vectors of"):
        open_encoder_for(index, models / "stranger")
    other = ExactIndex([1], ["one"], np.eye(11)[:1], None, "another model")
    with pytest.raises(InputError, match="the index has vectors of another model"):
        open_encoder_for(other, models / "student")
    assert encoder_of(index, open_encoder(models / "stranger")) is None


def test_the_command_and_the_api_take_it(models, index, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    shards = str(tmp_path / "shards")
    teacher, student = (["--model", str(models / name)] for name in ("teacher", "student"))
    assert main(["index", str(tmp_path / "texts.txt"), "--split_into", "lines", "-o", shards, *teacher]) == 0
    assert main(["search", TEXTS[7], "--store", shards, *student, "-k", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 7
    assert main(["search", "arch", "--store", shards, "--model", str(models / "stranger")]) == 2
    from contrastive_st.search.opening import open_named
    from contrastive_st.serve.api import IndexServed, Served, _served, make_api

    models_served = {"student": Served(open_encoder(models / "student"))}
    served = _served(open_named(shards), models_served)
    assert served is not models_served["student"]
    app = make_api(models_served, {"shards": IndexServed(open_named(shards), served)}, "testserver")
    with TestClient(app) as client:
        answer = client.post("/search", json={"query": TEXTS[9], "k": 3}).json()
        assert answer["hits"][0]["id"] == 9
        answer = client.post("/search", json={"query": TEXTS[9], "k": 3, "min_score": 0.999}).json()
        assert [hit["id"] for hit in answer["hits"]] in ([9], [])
        answer = client.post("/search", json={"query": TEXTS[9], "min_score": "low"})
        assert answer.status_code == 422


def test_a_student_of_the_same_dimension_needs_no_map(models, tmp_path):
    teacher = open_encoder(models / "teacher")
    teacher.save_pretrained(tmp_path / "copy")
    align(tmp_path / "copy", teacher, TEXTS, unit_vectors(teacher.encode(TEXTS)))
    space, lift = QuerySpace.of(open_encoder(tmp_path / "copy"))
    assert lift is None
    assert space.agreement == 1.0
    assert isinstance(LinearMap.fit(np.eye(3), np.eye(3)), LinearMap)


@pytest.mark.allow_warnings
def test_distill_records_it(tmp_path, capsys):
    from contrastive_st.files.folders import SHIPPED

    teacher = str(SHIPPED.parents[2] / "model_cards" / "minilm-1-layer")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS[:64]))
    command = ["distill", teacher, "--train_file", str(tmp_path / "texts.txt"), "-o", str(tmp_path / "out")]
    assert main([*command, "--dim", "4", "--steps", "2", "--align"]) == 0
    assert "cosine to the teacher's vectors of held-out texts" in capsys.readouterr().out
    space, lift = QuerySpace.of(open_encoder(tmp_path / "out"))
    assert space.fingerprint == open_encoder(teacher).fingerprint
    assert lift.matrix.shape == (5, 384)
