"""An encoder from raw text alone, in a script that nothing else here has: what it learns, and who opens it."""

import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from scripts import load

from contrastive_st import AutoModelForCL, SentenceEncoder
from contrastive_st.scripts import cli

GEORGIAN = [chr(code) for code in range(0x10D0, 0x10F0)]
OPTIONS = ["--max_steps", "60", "--learning_rate", "1e-2",
           "--per_device_train_batch_size", "512", "--vocab_size", "3000", "--hidden_size", "64",
           "--heldout", "300", "--disable_tqdm", "true", "--dataloader_num_workers", "0"]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """400 documents of ten sentences, each with words of one of 30 topics; the words are in Georgian letters."""
    draw = random.Random(0)
    word = lambda: "".join(draw.choices(GEORGIAN, k=draw.randint(3, 8)))
    topics = [[word() for _ in range(40)] for _ in range(30)]
    documents = [[" ".join(draw.choices(topics[i % 30], k=5)) + "." for _ in range(10)] for i in range(400)]
    path = tmp_path_factory.mktemp("text") / "georgian.txt"
    path.write_text("\n\n".join("\n".join(own) for own in documents), encoding="utf-8")
    return path


def printed(output):
    """Mean and interval of each line of the report."""
    lines = re.findall(r"^  (\S.*?)\s+(-?[\d.]+)\s+\[(-?[\d.]+), (-?[\d.]+)\]$", output, re.MULTILINE)
    return {name: tuple(map(float, figures)) for name, *figures in lines}


@pytest.mark.allow_warnings
def test_it_beats_tfidf_and_its_start_and_opens_everywhere(text, tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    out = tmp_path / "out"
    assert cli.train(["--train_file", str(text), "--output_dir", str(out), *OPTIONS]) == 0
    found = printed(capfd.readouterr().out)
    assert list(found) == ["TF-IDF", "before training", "trained", "trained - TF-IDF", "trained - before"]
    for name in ("trained - TF-IDF", "trained - before"):
        assert found[name][1] > 0.02, found  # the low end of the interval
    sentences = [line for line in text.read_text(encoding="utf-8").splitlines() if line][:40]
    ours = SentenceEncoder(str(out)).encode(sentences)
    assert np.linalg.norm(ours, axis=1) == pytest.approx(1, abs=1e-5)
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer

    for theirs in (SentenceTransformer(str(out)), StaticModel.from_pretrained(str(out))):
        np.testing.assert_allclose(theirs.encode(sentences), ours, atol=1e-5)


def test_the_result_is_a_mean_of_the_trained_and_the_untrained_vectors(text, tmp_path):
    module = load("run_static")
    kept: dict[str, Any] = {}

    class Watched(module.MeanWithStart):
        def on_train_end(self, args, state, control, model=None, **kwargs):
            kept.update(start=self.start.clone(), trained=model.embeddings.detach().clone())
            super().on_train_end(args, state, control, model=model, **kwargs)

    module.MeanWithStart = Watched
    options = [*OPTIONS[2:], "--max_steps", "2", "--start_share", "0.25"]
    module.main(["--train_file", str(text), "--output_dir", str(tmp_path / "out"), *options])
    table = AutoModelForCL.from_pretrained(tmp_path / "out").table().detach()
    assert not torch.equal(kept["start"], kept["trained"])
    np.testing.assert_allclose(table, 0.75 * kept["trained"] + 0.25 * kept["start"], atol=1e-6)


def test_a_share_beyond_one_is_refused(text, tmp_path, capsys):
    options = ["--train_file", str(text), "--output_dir", str(tmp_path / "out"), "--start_share", "1.5"]
    assert cli.train(options) == 2
    assert "--start_share 1.5 is not between 0 and 1" in capsys.readouterr().err
