"""Each example trains two steps on a few sentences, and leaves a checkpoint that opens."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, SentenceEncoder

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN = ["--max_steps", "2", "--per_device_train_batch_size", "4", "--report_to", "none", "--disable_tqdm", "true",
         "--logging_steps", "1", "--bf16", "false"]  # fmt: skip
BERT = "--hidden_size 64 --vocab_size 200"
RUNS = {  # of the scripts, those without a file: `test_every_size.py` has them with each kind of file
    "run_tsdae.py": BERT,
    "run_cutoff.py": BERT,
    "run_simcse.py": BERT,
    "run_quickthoughts.py": "--hidden_size 6 --embedding_size 4",
    "run_sbert.py": BERT,
    "run_infersent.py": "--hidden_size 6 --head_hidden 4 --embedding_size 4",
    "run_use.py": "--hidden_size 8 --embedding_size 8",
    "run_cert.py": f"--num_layers 1 --momentum_queue 8 {BERT}",
    "run_distill.py": f"--num_layers 1 --order_seconds 0.1 {BERT}",
    "run_skipthoughts.py": "--hidden_size 8 --embedding_size 6",
    "run_sequences.py": "--families 20 --heldout 4 --hidden_size 16",
    "run_distill.py layers": "--teacher teacher --layers 1 --loss embedding_distillation --order_seconds 0",
    "run_mlm.py further": "--train_file text.txt --max_train_samples 20 --model_name_or_path teacher --num_layers 1 "
    "--block_size 16",
    "by_feature/gradcache.py": "--chunk_size 3",
    "by_feature/ddp_and_fsdp.py": "",
    "by_feature/mine_hard_negatives.py": "--relative_margin -9",
    "by_feature/momentum_queue.py": "--momentum_queue 8",
    "by_feature/matryoshka.py": "--dims 128 8",
    "by_feature/lora.py": "--lora_r 2",
    "by_feature/scored_pairs.py": "--chunk_size 3",
    "by_feature/mixture.py": "--chunk_size 3",
    "by_feature/mixture.py alone": "--data pairs",
    "by_feature/guided_negatives.py": "--margin 0.1",
    "by_feature/prompts.py": "--include_prompt false --chunk_size 3",
    "by_feature/accelerate_loop.py": "--max_steps 2 --batch_size 4",
}


@pytest.fixture
def folder(tmp_path, monkeypatch, bert_config, tokenizer, small_documentation):
    """A working folder with small data and a teacher, and a documentation of a few sentences."""
    monkeypatch.chdir(tmp_path)
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "teacher")
    (tmp_path / "text.txt").write_text("\n".join(f"{a} and {b}" for a in SENTENCES for b in SENTENCES))
    rows = [(a, b) for a in SENTENCES for b in SENTENCES[:3]]
    (tmp_path / "pairs.csv").write_text("\n".join(["question,answer", *(f"{a},{b}" for a, b in rows)]))
    return tmp_path


def run_example(monkeypatch, name, *args):
    monkeypatch.setattr(sys, "argv", [name, *args])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return ended.value.code


@pytest.mark.allow_warnings
@pytest.mark.parametrize("name", RUNS)
def test_two_steps(name, folder, monkeypatch, capsys):
    script = name.split()[0]
    train = [] if script == "by_feature/accelerate_loop.py" else TRAIN
    given = [*RUNS[name].split(), *train, "--output_dir", "out"]
    assert run_example(monkeypatch, script, *given) == 0, capsys.readouterr().err
    if script == "run_mlm.py":
        assert (folder / "out" / "model.safetensors").is_file()
    else:
        assert (
            SentenceEncoder.from_pretrained(folder / "out")
            .encode(["MKVLA" if "sequences" in script else "a cat"])
            .shape[0]
            == 1
        )


def test_search_and_evaluation(folder, monkeypatch, capsys, bert_config, tokenizer):
    from contrastive_st import BertForCL

    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, "model")
    assert run_example(monkeypatch, "by_feature/search.py", "a cat", "--model", "model", "--corpus", "text.txt") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert run_example(monkeypatch, "by_feature/evaluation.py", "model", "--tasks", "nothing") == 2
    assert capsys.readouterr().err.startswith("error: ")


SCRIPTS = {path.name for path in EXAMPLES.glob("run_*.py")} | {name.split()[0] for name in RUNS} | {"train.py"}


@pytest.mark.parametrize("name", sorted(SCRIPTS - {"run_mlm.py"}))
def test_bad_input_is_one_line(name, folder, monkeypatch, capsys):
    assert run_example(monkeypatch, name, "--no_such_flag", "1") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: unknown argument --no_such_flag")
    assert error.count("\n") == 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_examples_use_public_names_alone(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("contrastive_st"):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            assert not any(name.startswith("_") for name in names)
