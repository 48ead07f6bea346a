"""Every script and command of training, on 1, 2 and 60 rows: it changes the weights, or ends in one line."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from refusals import error_of
from safetensors.torch import load_file
from small_checkpoints import tiny_bert
from warm_python import python_with_package

from conftest import save_both
from contrastive_st import BertForCL, ContrastiveTrainingArguments
from contrastive_st.cli import main
from contrastive_st.data import train_wordpiece
from contrastive_st.scripts.cli import script_files

ROOT = Path(__file__).parents[2]
WORDS = [f"word{i}" for i in range(60)]
BERT = ["--hidden_size", "16", "--num_layers", "1", "--vocab_size", "200"]
TOWERS = ["--hidden_size", "8", "--embedding_size", "8"]
TEACHER = ["--teacher", "base", "--cache", "none"]
#: The command, its options that have to do with size, and those that name its data; batch sizes are the defaults
RUNS = {
    "texts": ["train", "--train_file", "texts.txt", *BERT],
    "pairs": ["train", "--train_file", "pairs.csv", *BERT],
    "pairs, base": ["train", "--train_file", "pairs.csv", "--model_name_or_path", "base"],
    "triplets": ["train", "--train_file", "triplets.csv", *BERT],
    "scored pairs": ["train", "--train_file", "scored.csv", *BERT],
    "labelled pairs": ["train", "--train_file", "labelled.csv", *BERT],
    "labelled texts": ["train", "--train_file", "classes.csv", *BERT],
    "mixture": ["train", "--mixture", "mixture.yaml", *BERT],
    "simcse texts": ["train", "simcse", "--train_file", "texts.txt", *BERT],
    "simcse, read while training": ["train", "simcse", "--train_file", "texts.txt", "--shuffle_buffer", "10", *BERT],
    "simcse pairs": ["train", "simcse", "--train_file", "pairs.csv", *BERT],
    "tsdae": ["train", "tsdae", "--train_file", "texts.txt", *BERT],
    "cutoff texts": ["train", "cutoff", "--train_file", "texts.txt", *BERT],
    "cutoff pairs": ["train", "cutoff", "--train_file", "pairs.csv", *BERT],
    "sbert labels": ["train", "sbert", "--train_file", "labelled.csv", *BERT],
    "sbert scores": ["train", "sbert", "--train_file", "scored.csv", *BERT],
    "sbert triplets": ["train", "sbert", "--train_file", "triplets.csv", *BERT],
    "cert": ["train", "cert", "--train_file", "pairs.csv", *BERT],
    "distill script": ["train", "distill", "--train_file", "texts.txt", *BERT, *TEACHER],
    "distill script, TF-IDF": ["train", "distill", "--train_file", "texts.txt", *BERT],
    "mlm": ["train", "mlm", "--train_file", "texts.txt", "--block_size", "16", *BERT],
    "quickthoughts": ["train", "quickthoughts", "--train_file", "texts.txt", *TOWERS],
    "quickthoughts, shared words": ["train", "quickthoughts", "--train_file", "texts.txt", "--targets", "tfidf",
                                    *TOWERS],
    "skipthoughts": ["train", "skipthoughts", "--train_file", "texts.txt", *TOWERS],
    "use": ["train", "use", "--corpus_file", "texts.txt", "--answer_file", "pairs.csv", "--nli_file", "labelled.csv",
            *TOWERS],
    "infersent": ["train", "infersent", "--train_file", "labelled.csv", *TOWERS, "--head_hidden", "4"],
    "static": ["train", "static", "--train_file", "documents.txt", "--hidden_size", "16"],
    "neighbors": ["train", "neighbors", "--train_file", "documents.txt", "--model_name_or_path", "base"],
    "sequences": ["train", "sequences", "--fasta", "families.fasta", "--hidden_size", "16"],
    "static student": ["distill", "base", "--train_file", "texts.txt", "--dim", "8"],
    "layer student": ["distill", "base", "--student", "layers=0", "--train_file", "texts.txt"],
}  # fmt: skip
#: Two rows are one batch, two batches or too few, as rows are grouped; the other scripts group them as one of these
OF_TWO = ("texts", "pairs", "labelled texts", "mixture", "quickthoughts", "neighbors", "sequences", "use")
#: One row is refused where it is read, grouped or taught; the other scripts do so as one of these
OF_ONE = (*OF_TWO, "simcse, read while training", "tsdae", "cert", "distill script", "mlm", "skipthoughts", "infersent",
          "static", "static student", "layer student")  # fmt: skip
#: Runs of so many steps by default that the test says fewer, and of so many epochs
LONG = ("mlm", "use", "static", "static student", "neighbors")
EPOCHS = ("cert", "distill script", "distill script, TF-IDF", "infersent", "sequences")


def sentence(number):
    return " ".join(random.Random(number).choices(WORDS, k=6))


def write_data(folder, count):
    """Files of each kind with `count` rows."""
    a, b, c = ([sentence(3 * i + k) for i in range(count)] for k in range(3))
    csv = lambda name, head, *columns: Path(folder, name).write_text(
        "\n".join([head, *(",".join(map(str, row)) for row in zip(*columns, strict=True))])
    )
    Path(folder, "texts.txt").write_text("\n".join(a))
    Path(folder, "documents.txt").write_text("\n\n".join("\n".join(a[i : i + 6]) for i in range(0, count, 6)))
    csv("pairs.csv", "anchor,positive", a, b)
    csv("triplets.csv", "anchor,positive,negative", a, b, c)
    csv("scored.csv", "sentence1,sentence2,score", a, b, [i % 5 / 4 for i in range(count)])
    csv("labelled.csv", "sentence1,sentence2,label", a, b, [i % 3 for i in range(count)])
    csv("classes.csv", "text,label", a, [i % 3 for i in range(count)])
    Path(folder, "mixture.yaml").write_text(
        "datasets:\n- {name: one, train_file: pairs.csv}\n- {name: two, train_file: scored.csv}\n"
    )
    proteins = ["".join(random.Random(i).choices("ACDEFGHIKLMNPQRSTVWY", k=30)) for i in range(count)]
    Path(folder, "families.fasta").write_text("".join(f">f{i // 2}|{i % 2}\n{x}\n" for i, x in enumerate(proteins)))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A small encoder to start from, or to learn from."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = train_wordpiece([" ".join(WORDS)] * 3, vocab_size=120, max_length=32)
    config = tiny_bert(tokenizer, num_hidden_layers=2, max_position_embeddings=40)
    torch.manual_seed(0)
    return save_both(BertForCL(config, pooling="mean"), tokenizer, folder)


@pytest.fixture
def folder(tmp_path, base, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["contrastive-st"])
    (tmp_path / "base").symlink_to(base)
    return tmp_path


@pytest.fixture
def before(monkeypatch):
    """The weights that each training of this test starts with, by name."""
    found = []
    copy = lambda model: found.append({name: weight.clone() for name, weight in model.state_dict().items()})
    train = transformers.Trainer.train
    monkeypatch.setattr(
        transformers.Trainer, "train", lambda self, *a, **k: (copy(self.model), train(self, *a, **k))[1]
    )
    return found


def changed(before, folder):
    """How many of the saved tensors lack a row from before training; all are finite."""
    saved = load_file(folder / "model.safetensors")
    assert all(weight.isfinite().all() for weight in saved.values())
    pairs = [(own, weight) for name, weight in saved.items() for old, own in before.items()
             if (old.endswith(name) or name.endswith(old)) and own.shape[1:] == weight.shape[1:]]  # fmt: skip
    assert pairs, f"{list(saved)[:3]} are not among {list(before)[:3]}"
    rows_of = lambda weight: {row.numpy().tobytes() for row in weight.float().reshape(len(weight), -1) + 0.0}
    return sum(not rows_of(own) <= rows_of(weight) for own, weight in pairs)  # a table is trained by its used rows


def options_of(name):
    if RUNS[name][0] == "distill":
        return ["--output", "out", "--storage", "float32", *(["--steps", "2"] if name in LONG else [])]
    steps = ["--max_steps", "2"] if name in LONG else ["--num_train_epochs", "1"] * (name in EPOCHS)
    return ["--output_dir", "out", "--bf16", "false", "--report_to", "none", "--disable_tqdm", "true", *steps]


@pytest.mark.allow_warnings
@pytest.mark.parametrize(
    ("name", "count"),
    [(name, count) for name in RUNS for count in (1, 2, 60) if name in {1: OF_ONE, 2: OF_TWO, 60: RUNS}[count]],
)
def test_it_trains_or_ends_in_one_line(name, count, folder, before, capsys):
    write_data(folder, count)
    code = main([*RUNS[name], *options_of(name)])
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    told = [line for line in errors.splitlines() if line.startswith("error: ")]
    if code == 0:
        assert not told
        assert changed(before[0], folder / "out")
    else:
        assert code == 2
        assert len(told) == 1
        assert errors.splitlines()[-1] == told[0]
        assert not list((folder / "out").rglob("model.safetensors"))
    if count > 2 and code:  # a mixture is not refitted: the share of its data sets would be another
        assert name in ("mixture", "use"), errors
        assert "than a batch of" in told[0]


def test_every_script_is_here():
    names = {words[1] for words in RUNS.values() if words[0] == "train" and not words[1].startswith("-")}
    assert names == set(script_files()) - {"", "mixture"}


@pytest.mark.allow_warnings
@pytest.mark.parametrize(("student", "rate", "storage", "words"), [
    ("layers=0", "nan", "float32", "learning_rate nan: give a number above 0"),
    ("static", "1e6", "float16", "nothing was saved"), ("layers=0", "1e6", "float16", "nothing was saved"),
    ("static", "1e38", "float32", "nothing was saved"),
])  # fmt: skip
def test_a_student_that_diverges_is_not_saved(student, rate, storage, words, folder, capsys):
    write_data(folder, 60)
    options = ["--learning_rate", rate, "--storage", storage, "--steps", "60", "--batch_size", "30"]
    options += ["--dim", "8"] if student == "static" else []
    given = ["base", "--student", student, "--train_file", "texts.txt", "-o", "out", *options]
    assert words in error_of(capsys, "distill", *given)
    assert not (folder / "out" / "model.safetensors").exists()


@pytest.mark.allow_warnings
def test_a_masked_model_whose_rate_is_always_zero_does_not_end_well(folder, capsys, monkeypatch):
    write_data(folder, 60)
    monkeypatch.setattr(ContrastiveTrainingArguments, "get_warmup_steps", lambda self, steps: 200)
    assert "nothing was learned" in error_of(capsys, *RUNS["mlm"], *options_of("mlm"), "--max_steps", "1")
    assert not (folder / "out" / "model.safetensors").exists()


# --- Two processes.

LAUNCH = ["-m", "accelerate.commands.launch", "--quiet", "--config_file",
          str(ROOT / "examples" / "accelerate" / "two_cpu_processes.yaml")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options", "count"),
    [("train", "pairs", 1), ("train", "pairs", 60), ("run_quickthoughts", "quickthoughts", 2)],
)  # fmt: skip
def test_two_processes(script, options, count, folder):
    write_data(folder, count)
    data = [*RUNS[options][RUNS[options].index("--train_file") :], *options_of(options)]
    done = subprocess.run(
        [python_with_package(), *LAUNCH, str(ROOT / "examples" / f"{script}.py"), *data],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    if done.returncode == 0:
        assert json.loads(Path("out", "trainer_state.json").read_text())["global_step"] >= 1
        assert (folder / "out" / "model.safetensors").is_file()
        assert not told
    else:
        assert count <= 2, done.stderr
        assert len(told) == 1, done.stderr
        assert "Traceback" not in done.stderr[: done.stderr.index("error: ")]  # accelerate has one of its own
        assert "exitcode  : 2" in done.stderr
        assert not list((folder / "out").rglob("model.safetensors"))
