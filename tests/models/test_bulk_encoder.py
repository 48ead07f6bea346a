"""Bulk encoding gives the vectors of the plain encoder, whatever the order, the batch and the precision."""

import os
import signal
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import error_of, told
from tokenizers import Tokenizer, models, pre_tokenizers

from conftest import SENTENCES
from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.device import bf16_is_fast
from contrastive_st.models import running
from contrastive_st.models.protocol import fast_if_named, open_encoder
from contrastive_st.models.running import _one_ahead
from contrastive_st.search.exact import ExactIndex
from contrastive_st.speed.packing import PackedRows
from contrastive_st.static_vectors import StaticVectors
from contrastive_st.word_cache import WordCache


@pytest.fixture
def plain(bert_config, tokenizer):
    return SentenceEncoder(BertForCL(bert_config, pooling="mean").eval(), tokenizer)


def test_vectors_are_the_plain_encoders(plain):
    wanted = plain.encode(SENTENCES, normalize_embeddings=True)
    streamed = [vectors for _, vectors in plain.encode_stream([SENTENCES[:3], [], SENTENCES[3:]])]
    np.testing.assert_allclose(np.concatenate(streamed), wanted, atol=1e-6)
    backwards = next(plain.encode_stream([SENTENCES[::-1]]))[1]
    np.testing.assert_allclose(backwards[::-1], wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(backwards, axis=1), 1, atol=1e-6)
    assert (plain.dimension, plain.encode([]).shape) == (16, (0, 16))
    half = SentenceEncoder(plain, precision="bf16")
    assert (half.encode(SENTENCES, normalize_embeddings=True) * wanted).sum(1).min() > 0.999
    assert half.fingerprint == plain.fingerprint
    assert SentenceEncoder(plain, precision="auto").precision == ("bf16" if bf16_is_fast("cpu") else "fp32")
    assert next(plain.model.parameters()).dtype == torch.float32  # the caller's model is left as it was


def test_what_is_open_runs_as_it_was_opened_and_a_name_as_fast_as_it_can(plain, tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive_st.models.running.bf16_is_fast", lambda device: True)
    plain.save_pretrained(tmp_path / "m")
    half, by_name = SentenceEncoder(plain, precision="bf16"), str(tmp_path / "m")
    runs = lambda model, **options: SentenceEncoder(model, **fast_if_named(model, options)).precision
    assert (runs(plain), runs(half), runs(by_name), runs(plain, precision="bf16")) == ("fp32", "bf16", "bf16", "bf16")
    assert runs(by_name, precision="fp32") == "fp32"


def test_odd_texts(plain):
    encoder = SentenceEncoder(plain)
    vectors = encoder.encode(["", "   ", "\0", "'; DROP TABLE x; --", "😀", "\ud83d half", "word " * 200_000])
    assert np.isfinite(vectors).all()


def test_a_model_that_diverged_or_is_unknown_is_refused(plain, tokenizer):
    with pytest.raises(InputError, match="needs a tokenizer"):
        SentenceEncoder(lambda texts: np.ones((len(texts), 2)))
    with pytest.raises(InputError, match="fp64"):
        SentenceEncoder(plain, precision="fp64")
    with torch.no_grad():
        plain.model.bert.embeddings.word_embeddings.weight.fill_(float("nan"))
    for job in (plain.encode, lambda texts: next(plain.encode_stream([texts]))):
        with pytest.raises(InputError, match="NaN"):
            job(SENTENCES)


def _transformer_with_a_prompt(plain):
    encoder = SentenceEncoder(plain)
    encoder.checkpoint = replace(encoder.checkpoint, prompts={"document": "the cat "})  # whose tokens do not count
    return encoder


def _with_a_vector_for_what_it_does_not_know(plain):
    words = Tokenizer(models.WordLevel({"cat": 0, "?": 1}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return SentenceEncoder(StaticVectors(np.eye(2, dtype=np.float32), words))


@pytest.mark.parametrize("make", [
    lambda plain: SentenceEncoder(), lambda plain: open_encoder(), _transformer_with_a_prompt,
    _with_a_vector_for_what_it_does_not_know,
])  # fmt: skip
def test_a_text_without_a_known_token_has_no_vector_in_an_index(make, plain):
    """Seen before: all of them had one vector, so that duplicates counted them as equal."""
    encoder, unknown = make(plain), ["😀", "สวัสดี", "", "\0", " 🦑 🦑 "]
    found = [False] * len(unknown) + [True, True]
    assert encoder.knows([*unknown, "cat", "😀 cat"]).tolist() == found
    ((_, vectors),) = encoder.encode_stream([[*unknown, "cat", "😀 cat"]])
    assert vectors.any(axis=1).tolist() == found


def test_an_index_leaves_out_what_it_cannot_find(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("a cat sat\n😀\nสวัสดี\na dog ran\n", encoding="utf-8")
    command = ["index", str(tmp_path / "a.txt"), "--output", str(tmp_path / "shards")]
    said = told(capsys, *command).err
    assert "2 of 4 rows" in said
    assert "left out: 2 without a token that the model knows: " in said
    assert "a.txt, line 2; " in said
    index = ExactIndex.open(tmp_path / "shards")
    assert [hit.text for hit in index.get([0, 3])] == ["a cat sat", "a dog ran"]
    assert "knows none of the tokens of '😀'" in error_of(capsys, "search", "😀", "--store", tmp_path / "shards")
    assert "line 2 is without a token" in error_of(capsys, *command[:3], tmp_path / "other", "--strict")


def test_a_stream_that_has_nothing_now_gets_the_next_result_first():
    """Each result is asked for by a None; a stream that waited for one without it would wait forever."""
    results = []

    def stream():
        yield from (0, 1)
        for number in range(2, 6):
            while len(results) < number - 1:
                yield None
            yield number

    for result in _one_ahead(lambda item: 10 * item, stream()):
        results.append(result)
    assert results == [0, 10, 20, 30, 40, 50]
    assert list(_one_ahead(abs, iter([-1, None, -2]))) == [1, 2]
    assert list(_one_ahead(abs, iter([]))) == []
    with pytest.raises(ZeroDivisionError):
        list(_one_ahead(abs, (1 // x for x in (1, 0))))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_forked_after_products_on_several_threads_does_not_wait_for_them():
    threads, x = torch.get_num_threads(), torch.ones(512, 512)
    torch.set_num_threads(2)
    try:
        (x @ x).exp()
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends a process that hangs
            os._exit(0 if (x @ x).exp().isinf().all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("model", "place"),
    [("static", (WordCache, "_marked")), ("bert", (running, "token_ids")), ("bert", (PackedRows, "attend"))],
)
def test_a_process_forked_while_a_thread_encodes_has_turns_of_its_own(
    model, place, bert_config, tokenizer, monkeypatch
):
    opened = SentenceEncoder() if model == "static" else BertForCL(bert_config, pooling="mean").train()
    wanted = SentenceEncoder(opened, tokenizer if model == "bert" else None).encode(SENTENCES)
    encoder = SentenceEncoder() if model == "static" else SentenceEncoder(opened, tokenizer)  # that knows no word yet
    parts = [] if model == "static" else list(opened.modules())
    attends = lambda: [part.config._attn_implementation for part in parts if hasattr(part, "config")]
    state = lambda: (attends(), [(part.training, "forward" in vars(part)) for part in parts])
    before = state()
    inside, go_on, call = threading.Event(), threading.Event(), getattr(*place)

    def halting(*args, **options):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            go_on.wait(60)
        return call(*args, **options)

    monkeypatch.setattr(*place, halting)
    thread = threading.Thread(target=encoder.encode, args=(SENTENCES,))
    thread.start()
    assert inside.wait(60)
    if (child := os.fork()) == 0:
        signal.alarm(20)  # ends a process that hangs
        unchanged = state() == before and np.array_equal(encoder.encode(SENTENCES), wanted)
        os._exit(0 if unchanged and state() == before else 1)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize(("dtype", "precision"), [(torch.float16, "fp16"), (torch.bfloat16, "bf16")])
def test_a_model_in_half_precision_says_so_and_is_saved(dtype, precision, bert_config, tokenizer, tmp_path):
    BertForCL(bert_config, pooling="mean").save_pretrained(tmp_path / "float32")
    model = BertForCL.from_pretrained(tmp_path / "float32").to(dtype).eval()  # is saved in float32, as it came
    encoder = SentenceEncoder(model, tokenizer)
    encoder.save_pretrained(tmp_path / "saved")
    opened = SentenceEncoder(str(tmp_path / "saved"))
    assert (encoder.precision, SentenceEncoder(encoder).precision, opened.precision) == (precision, precision, "fp32")
    np.testing.assert_allclose(opened.encode(SENTENCES), encoder.encode(SENTENCES), atol=0.05)


def test_weights_that_the_processor_had_rounded_are_not_saved(plain, tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive_st.models.running.bf16_is_fast", lambda device: True)
    with pytest.raises(InputError, match="precision auto"):
        SentenceEncoder(plain, precision="auto").save_pretrained(tmp_path / "auto")
    half = SentenceEncoder(plain, precision="bf16")
    half.save_pretrained(tmp_path / "asked")
    assert SentenceEncoder(str(tmp_path / "asked")).precision == "bf16"
