"""The API as a process, before the clients people have, openai and huggingface_hub; and SIGTERM."""

import os
import signal
import subprocess
import threading
import time

import httpx
import numpy as np
import pytest
from huggingface_hub import InferenceClient
from small_checkpoints import tiny_bert
from warm_python import python_with_package

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, SentenceEncoder

pytest.importorskip("fastapi", reason="the API needs the extra api")
pytest.importorskip("prometheus_client", reason="the API needs the extra api")
pytestmark = pytest.mark.slow
TOKEN = "a-token-of-eight-or-more"


@pytest.fixture(scope="module")
def work(tokenizer, tmp_path_factory):
    """A model, and the token of the server."""
    folder = tmp_path_factory.mktemp("api")
    config = tiny_bert(tokenizer, num_hidden_layers=2)
    save_both(BertForCL(config, pooling="mean"), tokenizer, folder / "tiny")
    (folder / "token").write_text(TOKEN + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(work):
    command = [python_with_package(), "-m", "contrastive_st.cli", "api", str(work / "tiny"), "static-minilm",
               "--port", "0", "--precision", "fp32", "--token_file", str(work / "token")]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    process.address = process.stdout.readline().strip()
    assert process.address.startswith("http://127.0.0.1:")
    yield process
    process.kill()
    process.wait(30)


@pytest.fixture(scope="module")
def vectors(work):
    return SentenceEncoder(work / "tiny").encode(SENTENCES, normalize_embeddings=True)


def test_openai(server, vectors):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key=TOKEN, max_retries=0)
    answer = client.embeddings.create(model="tiny", input=SENTENCES)  # in base64, as the client asks by default
    np.testing.assert_allclose([item.embedding for item in answer.data], vectors, atol=1e-6)
    assert answer.usage.total_tokens > len(SENTENCES)
    cut = client.embeddings.create(model="tiny", input=SENTENCES[0], dimensions=4, encoding_format="float")
    np.testing.assert_allclose(cut.data[0].embedding, vectors[0, :4] / np.linalg.norm(vectors[0, :4]), atol=1e-6)
    assert [model.id for model in client.models.list()] == ["tiny", "static-minilm"]
    with pytest.raises(openai.NotFoundError, match="static"):
        client.embeddings.create(model="gpt", input="a")
    with pytest.raises(openai.AuthenticationError, match="token"):
        openai.OpenAI(base_url=f"{server.address}/v1", api_key="other").embeddings.create(model="tiny", input="a")


def test_hugging_face(server, vectors, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # the server is on this machine
    client = InferenceClient(model=server.address, token=TOKEN)
    np.testing.assert_allclose(client.feature_extraction(SENTENCES), vectors, atol=1e-6)
    np.testing.assert_allclose(client.feature_extraction(SENTENCES[0], normalize=True, truncate=True), vectors[:1],
                               atol=1e-6)  # fmt: skip
    similar = client.sentence_similarity(SENTENCES[0], other_sentences=SENTENCES[1:])
    np.testing.assert_allclose(similar, vectors[1:] @ vectors[0], atol=1e-6)


def test_what_was_taken_is_answered_when_the_server_is_told_to_stop(server, vectors):
    """The last test: eight requests of seconds are under way, SIGTERM comes, and each gets its whole answer."""
    headers, answers = {"Authorization": f"Bearer {TOKEN}"}, []
    sent = threading.Semaphore(0)

    def follow(event, _):
        if event == "http11.send_request_body.complete":
            sent.release()

    def ask():
        body = {"inputs": SENTENCES * 200}
        with httpx.Client(headers=headers, timeout=120) as client:
            answers.append(client.post(f"{server.address}/embed", json=body, extensions={"trace": follow}))

    clients = [threading.Thread(target=ask) for _ in range(8)]
    for client in clients:
        client.start()
    for _ in clients:
        assert sent.acquire(timeout=60), "a request is not sent"
    idle, until = 'waiting_tokens{model="tiny"} 0.0', time.monotonic() + 60
    while idle in httpx.get(f"{server.address}/metrics", headers=headers, timeout=60).text:
        assert time.monotonic() < until, "no text waits"
    assert len(answers) < 8
    server.send_signal(signal.SIGTERM)
    assert server.wait(120) == 0
    for client in clients:
        client.join(60)
    assert [answer.status_code for answer in answers] == [200] * 8
    assert {answer.headers["connection"] for answer in answers} == {"close"}  # or a client would send its next request
    for answer in answers:
        np.testing.assert_allclose(np.reshape(answer.json(), (200, *vectors.shape)), np.broadcast_to(
            vectors, (200, *vectors.shape)), atol=1e-6)  # fmt: skip
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.address}/health")
