"""The command line, on a tiny checkpoint."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import transformers
from datasets import Dataset
from refusals import error_of, refused, told
from small_files import full_disk

from conftest import SENTENCES
from contrastive_st import SentenceEncoder, doctor, terminal
from contrastive_st.cli import GROUPS, _parser, main
from contrastive_st.scripts.cli import script_files

COMMANDS_OF_HELP = [*(name for names in GROUPS.values() for name in names)]


@pytest.fixture
def checkpoint(checkpoint):
    return str(checkpoint)


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_encode_writes_what_the_encoder_gives(checkpoint, tmp_path, stdin):
    expected = SentenceEncoder.from_pretrained(checkpoint).encode(SENTENCES, normalize_embeddings=True)
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES))
    assert (
        main(["encode", str(tmp_path / "t.txt"), "-m", checkpoint, "-o", str(tmp_path / "a.npy"), "--normalize"]) == 0
    )
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected, atol=1e-6)
    stdin("\n".join(SENTENCES).encode())
    assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / "a.parquet"), "--normalize"]) == 0
    rows = Dataset.from_parquet(str(tmp_path / "a.parquet"))
    assert rows["text"][:] == SENTENCES
    np.testing.assert_allclose(np.array(rows["embedding"][:]), expected, atol=1e-6)


def test_similarity_of_two_and_of_many(checkpoint, capsys, stdin):
    assert told(capsys, "similarity", "a cat", "a cat", "-m", checkpoint).out == "1.0000\n"
    stdin(b"a dog\na cat\n")
    assert told(capsys, "similarity", "a cat", "-m", checkpoint).out.splitlines()[0] == "1.0000\ta cat"


@pytest.mark.filterwarnings("ignore:Cannot enable progress bars")
def test_libraries_print_nothing_unless_asked(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_set_here", set())
    for name in terminal._SILENT:
        monkeypatch.delenv(name, raising=False)
    transformers.utils.logging.enable_progress_bar()
    capsys.readouterr()
    assert told(capsys, "similarity", "a cat", "a dog", "-m", checkpoint).err == ""
    convert = ["convert", checkpoint, "--to", "backbone"]
    assert told(capsys, *convert, tmp_path / "told").err == f"backbone layout in {tmp_path / 'told'}\n"
    assert told(capsys, *convert, tmp_path / "quiet", "--quiet").err == ""
    assert "Loading weights" in told(capsys, "--verbose", "similarity", "a cat", "a dog", "-m", checkpoint).err
    assert not terminal.progress_is_shown()  # stderr is no terminal here
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert terminal.progress_is_shown()
    transformers.utils.logging.disable_progress_bar()


def test_doctor_says_what_a_bug_report_needs(capsys, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_ST_DATA", "/nowhere")
    printed = told(capsys, "doctor").out
    named = ("torch", "transformers", "CPU features", "precision", "threads", "PostgreSQL", "/nowhere", "not found")
    assert all(word in printed for word in named)
    monkeypatch.setenv("CONTRASTIVE_ST_DATA", "/home/alice/secret project/\x1b[31mdata")
    printed = told(capsys, "doctor").out
    assert "alice" not in printed
    monkeypatch.setenv("CONTRASTIVE_ST_CACHE", "/proc/none")
    assert dict(doctor.facts())["embedding cache"].partition("(")[2].startswith("NOT writable")
    monkeypatch.setenv("CONTRASTIVE_ST_STORE", "postgresql://user:secret@host/db")
    assert "secret" not in dict(doctor.facts())["PostgreSQL"]
    assert "\x1b" not in printed


def test_doctor_shows_each_setting_and_no_token(monkeypatch, tmp_path):
    settings = {
        "CONTRASTIVE_ST_MODEL": "alice/tiny", "CONTRASTIVE_ST_DEVICE": "cuda:7", "CONTRASTIVE_ST_STORE": "postgresql://a/b",
        "CONTRASTIVE_ST_CACHE": str(tmp_path / "cache-here"), "CONTRASTIVE_ST_DATA": str(tmp_path / "data-here"),
        "CONTRASTIVE_ST_API_TOKEN": "a-secret", "HF_HUB_OFFLINE": "1", "HF_TOKEN": "another-secret", "HF_ENDPOINT": "x",
    }  # fmt: skip
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text()
    [rows] = re.findall(r"## Environment variables(.*?)\n## ", page, re.DOTALL)
    assert set(re.findall(r"`((?:CONTRASTIVE_ST|HF)_\w+)`", rows)) == settings.keys()
    before = dict(doctor.facts())
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://me:word@hub.example")
    after = dict(doctor.facts())
    changed = {name for name in after if after[name] != before.get(name)}
    assert {"default model", "device", "PostgreSQL", "embedding cache", "data", "Hub"} <= changed
    assert {"API token", "Hub token"} <= {name for name in after if after[name] == "set"}
    said = " ".join(after.values())
    assert not [word for word in ("secret", "word@") if word in said]


@pytest.mark.parametrize(
    ("args", "given", "words"),
    [
        (["encode", "-o", "out.npy"], b"", "stdin is empty"),
        (["encode", "-o", "out.csv"], b"a\n", ".parquet"),
        (["encode", "-o", "model"], b"a\n", ".npy"),
        (["encode", "-o", "no/such/out.npy"], b"a\n", "does not exist"),
        (["encode", "missing.txt", "-o", "out.npy"], b"", "missing.txt"),
        (["similarity", "a"], b"", "nothing to compare"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(checkpoint, args, given, words, tmp_path, monkeypatch, capsys, stdin):
    monkeypatch.chdir(tmp_path)
    stdin(given)
    assert words in refused(capsys, *args, "-m", checkpoint)
    assert not (tmp_path / "out.npy").exists()


def test_an_existing_file_is_kept_unless_told_otherwise(checkpoint, tmp_path, stdin, capsys):
    (tmp_path / "a.npy").write_bytes(b"mine")
    stdin(b"a cat\n")
    assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / "a.npy")]) == 2
    assert (tmp_path / "a.npy").read_bytes() == b"mine"
    stdin(b"a cat\n")
    assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / "a.npy"), "--overwrite"]) == 0


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_a_full_disk_leaves_no_truncated_file(checkpoint, tmp_path, stdin, capsys, name):
    stdin(b"a cat\n" * 2000)
    with full_disk():
        assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / name} cannot be written: ")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--sede", "7"], "unknown argument --sede; did you mean --seed?"),
        (["--qqqq", "7"], "--qqqq"),
        (["--metadata", "7"], "--metadata"),
        (["--batch_size", "7"], "unknown argument --batch_size; give --per_device_train_batch_size"),
        (["--lr", "7"], "unknown argument --lr; give --learning_rate"),
        (["--warmup_ratio", "0.1"], "give --warmup_steps, which takes a share of the steps too, such as 0.1"),
        (["--group_by_length", "true"], "leave it out: rows of similar length are encoded together anyway"),
        (["--config", "none.yaml"], "none.yaml: there is no such file"),
        (["--learning_rate", "fast"], "--learning_rate"),
        (["--lr_scheduler_kwargs", "{bad"], "{bad"),
        (["--report_to", "wandb"], "wandb"),
        (["--report_to", "nothing"], "nothing is not supported"),
        (["--deepspeed", "ds.json"], "deepspeed"),
        (["--save_strategy", "sometimes"], "sometimes"),
        (["--max_length"], "expected one argument"),
        (["--per_device_train_batch_size", "0"], "per_device_train_batch_size 0"),
        (["--learning_rate", "nan"], "learning_rate nan"),
        (["--optim_args", "{bad"], "optim_args {bad"),
        (["--fp16", "true", "--use_cpu", "true"], "fp16: on a CPU, accelerate computes in float32"),
        (["--mlm_probability", "2"], "mlm_probability 2"),
        (["--hard_negative_weight", "inf"], "hard_negative_weight inf"),
        (["--preprocessing_num_workers", "0"], "preprocessing_num_workers 0"),
    ],
)
def test_a_bad_argument_of_a_script_is_one_line(args, words, capsys, tmp_path):
    given = ["--train_file", "x.txt", "--output_dir", tmp_path / "out", *args]
    assert words in refused(capsys, "train", "simcse", *given)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train simcse --model_name_or_path m --num_layers 2", "--num_layers has no effect with --model_name_or_path"),
        ("train mlm --model_name_or_path m --hidden_size 256", "--hidden_size has no effect with --model_name_or_path"),
        ("train simcse --mlm_weight 0.2", "--mlm_weight has no effect without --do_mlm"),
        ("train distill --teacher_pooling cls", "--teacher_pooling has no effect without --teacher"),
        ("train sequences --fasta a.fasta --members 2", "--members has no effect with --fasta"),
        ("train infersent --word_vectors w.txt --embedding_size 8", "--embedding_size has no effect with"),
        ("train quickthoughts --word_vectors w.txt --embedding_size 8", "--embedding_size has no effect with"),
        ("train cert --task_seeds 2", "--task_seeds has no effect without --task"),
        ("search cats --rerank_top 9", "--rerank_top has no effect without --rerank"),
        ("compare --installed_docs --rerank_top 9", "--rerank_top has no effect without --rerank"),
        ("index --installed_docs --columns title", "--columns has no effect with --installed_docs"),
        ("distill t --train_file a.txt -o out --max_length 9", "--max_length has no effect with --student static"),
        ("distill t --student layers=0 --train_file a.txt -o out --dim 9", "--dim has no effect with --student layers"),
        ("distill t --train_file a.txt -o out --temperature 1", "--temperature has no effect without --pairs"),
        ("mine pairs.csv -o out.csv --corpus_column c", "corpus_column c is for a corpus"),
        ("classify a.txt --train_file b.csv --num_epochs 3", "--num_epochs has no effect without --tune"),
    ],
)
def test_an_option_that_would_not_be_read_is_refused(command, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, *command.split())


SCRIPTS = [name for name in script_files() if name]
SCRIPTS_WITH = {
    "dropout": ["simcse", "quickthoughts"],
    "vocab_size": [name for name in SCRIPTS if name != "mixture"],
    "hidden_size": SCRIPTS,
    "max_length": [name for name in SCRIPTS if name != "mlm"],
    "num_layers": ["simcse", "sbert", "quickthoughts", "use", "cert", "distill", "sequences"],
    "temperature": ["simcse", "quickthoughts", "cert", "sequences"],
    "k": ["sequences"],
}
OUT_OF_RANGE = [
    ("dropout", "2"), ("dropout", "-1"), ("dropout", "nan"), ("vocab_size", "0"), ("hidden_size", "-8"),
    ("max_length", "0"), ("num_layers", "-1"), ("temperature", "0"), ("temperature", "nan"), ("k", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_every_script_refuses_what_is_out_of_range_before_it_reads(name, value, capsys, tmp_path):
    for script in SCRIPTS_WITH[name]:
        error = refused(capsys, "train", script, "--output_dir", tmp_path / "out", f"--{name}", value)
        assert error.startswith(f"error: {name} {value}"), (script, error)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--vocab_size", "5"], "vocab_size 5: give a whole number above 5"),
        (["--optim", "apollo_adamw"], "optim apollo_adamw"),
        (["--lr_scheduler_type", "cosine_with_restarts", "--lr_scheduler_kwargs", '{"a": 1}'], "unexpected keyword"),
        (["--eval_strategy", "steps"], "eval_strategy"),
    ],
)
def test_what_only_the_trainer_can_refuse_is_one_line(args, words, capsys, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES))
    small = ["--num_layers", "1", "--hidden_size", "8", "--max_steps", "1", "--per_device_train_batch_size", "2"]
    given = ["--train_file", str(tmp_path / "t.txt"), "--output_dir", str(tmp_path / "out"), *small, *args]
    assert words in error_of(capsys, "train", "simcse", *given)


def test_a_mistyped_command_or_script_is_suggested(capsys):
    assert refused(capsys, "trian") == "error: no command trian; did you mean train?\n"
    assert refused(capsys, "train", "simsce") == "error: no training script simsce; did you mean simcse?\n"


def test_options_of_every_command_stand_before_train_too(capsys):
    assert "unknown argument --bogus" in refused(capsys, "--quiet", "train", "--train_file", "x.csv", "--bogus", "1")
    assert "did you mean simcse?" in refused(capsys, "--device", "cpu", "train", "simsce")
    assert told(capsys, "--quiet", "train", "simcse", "--help").out.startswith("usage: contrastive-st train simcse")
    with pytest.raises(SystemExit):
        main(["--version", "train"])
    assert refused(capsys, "x.yaml", "train").startswith("error: no command x.yaml")


@pytest.mark.parametrize(("words", "named"), [
    ("search cats -k many", "-k"), ("encode", "--output"), ("search cats --modle x", "--model?"), ("--mod", "--mod"),
])  # fmt: skip
def test_bad_arguments_of_a_command_are_one_line(words, named, capsys):
    assert named in refused(capsys, *words.split())


def test_help_lists_every_command_in_one_group(capsys):
    _, commands = _parser()
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(commands)
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in grouped)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("contrastive-st ")


EVERY_HELP = """
import sys
from contrastive_st.cli import main
for command in sys.argv[1:]:
    try: main([*command.split(), '--help'])
    except SystemExit: pass
    print(f'after {command}:', sorted({'torch', 'transformers', 'numpy', 'datasets', 'sklearn'} & set(sys.modules)))
"""


def test_help_imports_nothing_heavy():
    command = [sys.executable, "-c", EVERY_HELP, "", *COMMANDS_OF_HELP]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = [line for line in done.splitlines() if line.startswith("after ")]
    assert after == [f"after {name}: []" for name in ("", *COMMANDS_OF_HELP)]
    assert done.count("usage: contrastive-st") == len(after)


@pytest.mark.parametrize("name", script_files())
def test_the_help_of_a_script_shows_its_options_and_what_it_sets(name, capsys):
    printed = told(capsys, "train", *([name] if name else ["--train_file", "x.csv"]), "--help").out
    assert printed.startswith(f"usage: contrastive-st train {name}".strip() + " [options]\n")
    assert "--early_stopping_patience" in printed
    assert "This script sets:\n  --" in printed


ENDING = """
import sys
from pathlib import Path
from contrastive_st.commands import run
def job():
    import logging
    logging.basicConfig(stream=sys.stderr)
    for step in range(3):
        print("x" * 100_000)  # more than a pipe holds
        print("y" * 100_000, file=sys.stderr)
        logging.warning("z" * 100_000)
    Path(sys.argv[1]).write_text("done")
sys.exit(run(job))
"""


@pytest.mark.parametrize("flags", [[], ["-u"]])
@pytest.mark.parametrize("redirection", ["| head -c 1", "2>&1 | true", "2>&1 >/dev/null | true", ">&- 2>&- <&-"])
def test_a_job_is_done_whoever_reads_what_it_prints(flags, redirection, tmp_path):
    command = shlex.join([sys.executable, *flags, "-c", ENDING, str(tmp_path / "result")])
    done = subprocess.run(
        ["bash", "-c", f"{command} {redirection}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr
    assert (tmp_path / "result").read_text() == "done"


def test_a_stream_that_the_caller_has_closed_is_empty(monkeypatch, tmp_path):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["encode", "-", "-o", str(tmp_path / "v.npy")]) == 2
    assert sys.stdin.read() == ""
    print("\u20ac", file=sys.stderr)


def test_a_reader_that_has_enough_ends_the_command_in_silence():
    command = [sys.executable, "-u", "-c", "import sys\nfrom contrastive_st.commands import run\n"
               "from contrastive_st.terminal import say\n"
               "sys.exit(run(lambda: [say('x' * 100) for _ in range(100000)]))"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_escape_sequences_do_not_reach_the_terminal(checkpoint, capsys, stdin):
    stdin(b"a dog\x1b[2J\xc2\x9b\n")
    printed = told(capsys, "similarity", "a cat", "-m", checkpoint).out
    assert "a dog\ufffd[2J\ufffd" in printed
    assert "\x1b" not in refused(capsys, "encode", "no\x1b[31mfile", "-m", checkpoint, "-o", "x.npy")
