"""Training that pushes, and models pulled by name in another process: bit-equal, by every loader."""

import json
import subprocess
from pathlib import Path

import pytest
from hub_server import Fault
from small_checkpoints import tiny_bert

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"

PULLED = """
import json, sys
import numpy as np, torch
from contrastive_st import AutoModelForCL, SentenceEncoder
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer
name, folder, sentences = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])

def plain(where):
    with torch.inference_mode():
        batch = AutoTokenizer.from_pretrained(where)(sentences, padding=True, return_tensors="pt")
        return AutoModel.from_pretrained(where).eval()(**batch).pooler_output.numpy()

loaders = {
    "package": lambda where: SentenceEncoder.from_pretrained(where).encode(sentences),
    "transformers": plain,
    "sentence-transformers": lambda where: SentenceTransformer(where, device="cpu").encode(sentences),
}
for loader, embed in loaders.items():
    assert np.array_equal(embed(name), embed(folder)), loader
model = AutoModelForCL.from_pretrained(name)
assert model.name_or_path == name and len(model.config._commit_hash) == 40
"""


STRATEGIES = """
import os, sys
from datasets import Dataset
from huggingface_hub import snapshot_download
from safetensors.torch import load_file
from transformers import BertConfig, set_seed
import torch
from conftest import SENTENCES
from contrastive_st import AutoModelForCL, BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments
from contrastive_st import DropoutPairCollator, SentenceEncoder, tokenize
from contrastive_st.data import train_wordpiece

tokenizer = train_wordpiece(SENTENCES * 3, vocab_size=120, max_length=16)
rows = tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16)
shape = dict(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
shape |= dict(intermediate_size=16)

def trainer(output, **options):
    set_seed(0)
    args = ContrastiveTrainingArguments(
        output, per_device_train_batch_size=4, max_steps=4, save_steps=2, logging_steps=1, report_to=[],
        disable_tqdm=True, learning_rate=1e-3, hub_always_push=True, hub_private_repo=True, **options)
    return ContrastiveTrainer(BertForCL(BertConfig(**shape)), args, train_dataset=rows,
                              data_collator=DropoutPairCollator(tokenizer), processing_class=tokenizer)

for strategy in ("every_save", "checkpoint", "end", "all_checkpoints"):
    run = trainer(strategy, push_to_hub=True, hub_model_id="alice/" + strategy, hub_strategy=strategy)
    run.train()
    run.save_model()
    run.push_to_hub(license="mit")
    run.push_to_hub()  # nothing changed
resumed = trainer("resumed")
pulled = snapshot_download("alice/all_checkpoints", allow_patterns="checkpoint-2/*")
resumed.train(resume_from_checkpoint=pulled + "/checkpoint-2")
resumed.save_model()
whole = load_file("end/model.safetensors")
assert all(torch.equal(tensor, whole[name]) for name, tensor in load_file("resumed/model.safetensors").items())
model = AutoModelForCL.from_pretrained("alice/end")
for _ in range(2):  # transformers' own way: the second changes nothing
    model.push_to_hub("alice/direct", private=True)
    tokenizer.push_to_hub("alice/direct")
SentenceEncoder.from_pretrained("alice/direct")
"""


def environment(clients, home, **more):
    return {**clients.environment(home), "HF_TOKEN": "hf_aliceSecretToken0", **more}


def run(command, env, cwd):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, env=env, cwd=cwd)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "hf_aliceSecretToken0" not in done.stdout + done.stderr
    return done


def test_two_processes_push_and_a_fresh_one_pulls_the_same_embeddings(hub, hub_clients, tmp_path):
    """From the text file to the Hub."""
    (tmp_path / "text.txt").write_text("\n".join(f"{a} and {b}" for a in SENTENCES for b in SENTENCES))
    config, example = EXAMPLES / "accelerate" / "two_cpu_processes.yaml", EXAMPLES / "run_simcse.py"
    launch = [hub_clients.executable, "-m", "accelerate.commands.launch", "--config_file", config, example]
    tiny = ["--train_file", "text.txt", "--per_device_train_batch_size", "8", "--max_steps", "6", "--output_dir", "out",
            "--num_layers", "1", "--hidden_size", "16", "--logging_steps", "2", "--learning_rate", "1e-3"]  # fmt: skip
    push = ["--push_to_hub", "true", "--hub_model_id", "alice/two", "--disable_tqdm", "true", "--save_steps", "4"]
    run([*launch, *tiny, *push], environment(hub_clients, tmp_path / "home"), tmp_path)
    training = json.loads(hub.content("alice/two", "training_metadata.json"))
    assert training["launch"]["processes"] == 2
    assert training["run"]["steps"] == 6
    assert str(tmp_path) not in json.dumps(training)
    assert hub.repos["alice/two"].titles()[0] == "Model save"
    assert hub.content("alice/two", "training_curve.png")[:4] == b"\x89PNG"
    assert not [name for name in hub.repos["alice/two"].files("main") if name.endswith((".bin", ".pt", ".pth", ".txt"))]
    code = ["-c", PULLED, "alice/two", tmp_path / "out", json.dumps(SENTENCES)]
    run([hub_clients.executable, *code], environment(hub_clients, tmp_path / "empty"), tmp_path)
    before = len(hub.requests)
    without = environment(hub_clients, tmp_path / "empty", HF_HUB_OFFLINE="1")  # and again without a network
    run([hub_clients.offline, *code], without, tmp_path)
    assert len(hub.requests) == before


def test_an_adapter_opens_by_its_name_and_does_not_replace_its_base(hub, hub_clients, tokenizer, tmp_path):
    base = save_both(BertForCL(tiny_bert(tokenizer), pooling="mean"), tokenizer, tmp_path / "base")
    files = [path for path in base.rglob("*") if path.is_file()]
    hub.put("alice/base", {path.relative_to(base).as_posix(): path.read_bytes() for path in files})
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 2))
    tiny = ["--train_file", "text.txt", "--model_name_or_path", "alice/base", "--lora_r", "2", "--max_steps", "2",
            "--per_device_train_batch_size", "4", "--disable_tqdm", "true", "--push_to_hub", "true"]  # fmt: skip
    train = [hub_clients.executable, "-m", "contrastive_st.cli", "train", *tiny, "--output_dir"]
    env = environment(hub_clients, tmp_path / "home")
    run([*train, "out", "--hub_model_id", "alice/adapter"], env, tmp_path)
    assert "config.json" not in hub.repos["alice/adapter"].files("main")
    code = [hub_clients.executable, "-c", PULLED, "alice/adapter", tmp_path / "out", json.dumps(SENTENCES)]
    run(code, environment(hub_clients, tmp_path / "empty"), tmp_path)
    over = [*train, "other", "--hub_model_id", "alice/base"]
    done = subprocess.run(over, capture_output=True, text=True, timeout=300, env=env, cwd=tmp_path)
    assert done.returncode == 2
    assert "alice/base is the base of this adapter" in done.stderr
    assert not list((tmp_path / "other").glob("*"))
    assert hub.repos["alice/base"].titles() == ["put"]


def test_every_strategy_pushes_what_it_should(hub, hub_clients, tmp_path):
    hub.faults.append(Fault("POST", "/api/models/alice/every_save/commit/", "500"))  # the first push of a checkpoint
    former = ["adapter_config.json", "adapter_model.safetensors", "model.safetensors.index.json", "onnx/model.onnx"]
    left = dict.fromkeys([*former, "last-checkpoint/adapter_config.json", "LICENSE", "mine/pairs.csv"], b"{}")
    hub.put("alice/checkpoint", left, private=True)  # of a run before
    code = [hub_clients.executable, "-c", STRATEGIES]
    done = run(code, environment(hub_clients, tmp_path / "home", PYTHONPATH=str(Path(__file__).parents[1])), tmp_path)
    assert "Training in progress, step 2 was not pushed" in done.stderr
    titles = {name.removeprefix("alice/"): repo.titles()[::-1][1:] for name, repo in hub.repos.items()}
    end = ["Model save", "End of training"]  # the second with the licence in the card
    middle = [f"Training in progress, step {step}" for step in (2, 4)]
    assert titles["every_save"] == [middle[1], *end]
    assert titles["checkpoint"] == titles["all_checkpoints"] == [*middle, *end]
    assert titles["end"] == end
    assert titles["direct"] == ["Upload BertForCL", "Upload tokenizer"]
    now = hub.repos["alice/checkpoint"].files("main")
    assert left.keys() & now.keys() == {"LICENSE", "mine/pairs.csv"}
    assert "alice/checkpoint: the commit removes files of a former model: adapter_config.json, " in done.stderr
    states = {"optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"}
    for name in ("every_save", "checkpoint", "end", "all_checkpoints"):
        repo = hub.repos[f"alice/{name}"]
        assert repo.private
        files = set(repo.files("main"))
        below = {path.partition("/")[0] for path in files if "checkpoint" in path.partition("/")[0]}
        wanted = {"checkpoint": {"last-checkpoint"}, "all_checkpoints": {"checkpoint-2", "checkpoint-4"}}
        assert below == wanted.get(name, set())
        assert not [path for path in files if path.endswith("training_args.bin")]
        assert not states & files
        assert all(f"{folder}/{state}" in files for folder in below for state in states)
        root = {"model.safetensors", "2_Dense/model.safetensors", "tokenizer.json", "README.md"}
        assert root | {"training_metadata.json"} <= files
        assert "license: mit" in hub.content(f"alice/{name}", "README.md").decode()
    assert json.loads(hub.content("alice/checkpoint", "last-checkpoint/training_metadata.json"))["run"]["steps"] == 4
