"""An encoder from raw text alone, in a script that nothing else here has: what it learns, and who opens it."""

import math
import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from scripts import load
from small_files import put

from contrastive_st import AutoModelForCL, SentenceEncoder
from contrastive_st.scripts import cli

GEORGIAN = [chr(code) for code in range(0x10D0, 0x10F0)]
OPTIONS = ["--max_steps", "60", "--learning_rate", "1e-2",
           "--per_device_train_batch_size", "512", "--vocab_size", "3000", "--hidden_size", "64",
           "--trained_size", "32", "--heldout", "300", "--disable_tqdm", "true",
           "--dataloader_num_workers", "0"]  # fmt: skip


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
def test_it_beats_tfidf_and_its_start_and_opens_everywhere(text, tmp_path, capfd):
    out = tmp_path / "out"
    assert cli.train(["--train_file", str(text), "--output_dir", str(out), *OPTIONS]) == 0
    found = printed(capfd.readouterr().out)
    lexical = ["TF-IDF of words", "TF-IDF of characters"]
    best = max(lexical, key=lambda name: found[name][0])
    assert list(found) == [*lexical, "before training", "trained", f"trained - {best}", "trained - before"]
    for name in (f"trained - {best}", "trained - before"):
        assert found[name][1] > 0, found  # the low end of the interval
    sentences = [line for line in text.read_text(encoding="utf-8").splitlines() if line][:40]
    ours = SentenceEncoder(str(out)).encode(sentences)
    assert np.linalg.norm(ours, axis=1) == pytest.approx(1, abs=1e-5)
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer

    for theirs in (SentenceTransformer(str(out)), StaticModel.from_pretrained(str(out))):
        np.testing.assert_allclose(theirs.encode(sentences), ours, atol=1e-5)


def test_the_result_is_the_letters_before_the_trained_dimensions(text, tmp_path):
    module = load("run_static")
    kept: dict[str, Any] = {}

    class Watched(module.LettersBeside):
        def on_train_end(self, args, state, control, model=None, **kwargs):
            kept.update(letters=self.letters, trained=model.embeddings.detach().clone(), rows=self.rows)
            super().on_train_end(args, state, control, model=model, **kwargs)

    module.LettersBeside = Watched
    options = [*OPTIONS[2:], "--max_steps", "2", "--letters", "0.25", "--trained_size", "24"]
    module.main(["--train_file", str(text), "--output_dir", str(tmp_path / "out"), *options])
    table = AutoModelForCL.from_pretrained(tmp_path / "out").table().detach()
    assert table.shape[1] == 64
    parts = []
    for part, share in ((kept["letters"], 0.25), (kept["trained"], 0.75)):
        means = torch.stack([part[row].mean(0) for row in kept["rows"]])
        parts.append(part * (share / (means**2).sum(1).mean()) ** 0.5)
    both = torch.cat(parts, 1).double()
    means = torch.stack([both[row].mean(0) for row in kept["rows"]])
    center = means.mean(0)
    units = torch.nn.functional.normalize(means - center, dim=1)
    values, axes = np.linalg.eigh(np.cov(units.numpy().T, bias=True))
    wanted = (both - center).numpy() @ (axes * values**-0.2)
    wanted[:2] = 0  # padding and the unknown token
    grams = lambda x: x[:200] @ x[:200].T  # axes have no sign
    np.testing.assert_allclose(grams(table.double().numpy()), grams(wanted), atol=1e-4)


def test_the_length_of_a_token_is_the_root_of_the_idf_of_its_grams():
    tokens, frequencies, texts = ["cat", "cats", "dog"], np.array([5, 2, 1]), 10
    own = [[f"<{token}>"[i : i + n] for n in (2, 3, 4) for i in range(len(token) + 3 - n)] for token in tokens]

    def idf(gram):
        with_it = sum(int(count) for grams, count in zip(own, frequencies, strict=True) if gram in grams)
        return math.log((1 + texts) / (1 + min(with_it, texts))) + 1

    table = load("letters").gram_directions(tokens, 8, frequencies=frequencies, texts=texts)
    wanted = [math.sqrt(math.sqrt(sum(idf(gram) ** 2 for gram in grams) / len(grams))) for grams in own]
    assert table.norm(dim=1).tolist() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--letters", "1.5"], "letters 1.5: give a number of 0 or more and below 1"),
     (["--trained_size", "99"], "--trained_size 99 is more than --hidden_size 64")],
)  # fmt: skip
def test_dimensions_and_shares_that_cannot_be_are_refused(text, tmp_path, capsys, options, message):
    assert cli.train(["--train_file", str(text), "--output_dir", str(tmp_path / "out"), *OPTIONS, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("files", "script"), [(["?.txt"], "static"), (["a.csv"], ""), (["a.csv", "b.txt"], "")])
def test_every_file_says_which_script_suits(files, script, tmp_path, capsys):
    put(tmp_path, ".", {"b.txt": "one\ntwo\n\nthree\n", "a.csv": "text,category\nab,x\ncd,y\n"})
    given = [word for name in files for word in ("--train_file", str(tmp_path / name))]
    assert cli.train([*given, "--help"]) == 0
    assert capsys.readouterr().out.split("train")[1].partition("[options]")[0].strip() == script


@pytest.mark.allow_warnings  # that it was stopped
@pytest.mark.parametrize("script", ["run_static", "run_neighbors"])
def test_a_run_that_is_stopped_reports_no_figures_of_a_trained_encoder(script, text, tmp_path, capsys, stop_at_step):
    stop_at_step(2)
    flags = ["--train_file", str(text), "--output_dir", str(tmp_path / "out"), "--heldout", "50", "--hidden_size", "32"]
    load(script).main([*flags, "--max_steps", "3", "--per_device_train_batch_size", "16", "--bf16", "false"])
    assert (tmp_path / "out" / "checkpoint-2").is_dir()
    assert "MRR" not in capsys.readouterr().out
