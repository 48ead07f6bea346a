"""Training on two hosts with a process each: the weights of one machine; a host that goes away; a slow link."""

import re
import sys
import time
from pathlib import Path

import pytest
import torch
from hosts import Cluster, until
from safetensors.torch import load_file

from conftest import SENTENCES

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--learning_rate", "1e-3",
        "--disable_tqdm", "true", "--save_strategy", "steps", "--save_steps", "1000",
        "--logging_steps", "5"]  # fmt: skip
WAYS = {"plain": [], "gradcache": ["--chunk_size", "3"], "fsdp": ["--save_only_model", "true"]}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with Cluster("one", "two", "near", "far", slow=["far"]) as hosts:
        yield hosts


@pytest.fixture
def text(tmp_path):
    lines = [f"{sentence} and {other}" for sentence in SENTENCES for other in SENTENCES]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return tmp_path / "text.txt"


def command(way, text, out, *options):
    """`accelerate launch` as docs/launching.md has it, with one thread for each process."""
    config = "fsdp" if way == "fsdp" else "two_cpu_processes"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file",
              EXAMPLES / f"accelerate/{config}.yaml", "--num_processes", "2"]  # fmt: skip
    script = [EXAMPLES / "run_simcse.py", "--train_file", text, "--output_dir", out, *TINY, *WAYS[way], *options]
    return launch, script


def launched(cluster, hosts, way, text, out, *options, port=29511, **environment):
    """A process for each host, of which the first is the main one; `hosts` of one name: both processes there."""
    launch, script = command(way, text, out, *options)
    many = ["--num_machines", len(hosts), "--main_process_ip", cluster.addresses[hosts[0]], "--main_process_port", port]
    environment |= {"ACCELERATE_USE_CPU": "true"}
    return [
        cluster.start(host, *launch, *many, "--machine_rank", rank, *script, **environment)
        for rank, host in enumerate(hosts)
    ]


def ended(processes, timeout=240):
    """The output of processes that end well."""
    outputs = [process.communicate(timeout=timeout) for process in processes]
    assert not any(process.returncode for process in processes), "\n".join(err[-3000:] for _, err in outputs)
    return outputs


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("way", WAYS)
def test_two_hosts_train_as_two_processes_of_one(cluster, text, tmp_path, way):
    steps = ["--max_steps", "10"]
    outputs = ended(launched(cluster, ["one", "two"], way, text, tmp_path / "two", *steps))
    assert "candidates 8" in outputs[0][0]  # twice the four rows of a process
    ended(launched(cluster, ["one"], way, text, tmp_path / "one", *steps))
    assert_equal(weights(tmp_path / "two"), weights(tmp_path / "one"))


def test_a_host_that_goes_away_ends_the_run_which_is_resumed_bit_for_bit(cluster, text, tmp_path):
    steps = ["--max_steps", "300", "--save_steps", "50", "--logging_steps", "100"]
    ended(launched(cluster, ["one", "two"], "plain", text, tmp_path / "whole", *steps))
    out = tmp_path / "broken"
    main, _ = launched(cluster, ["one", "two"], "plain", text, out, *steps, port=29512)
    until(lambda: (out / "checkpoint-50").is_dir(), "the first checkpoint", 120)
    cluster.crash("two")
    _, err = main.communicate(timeout=120)
    assert main.returncode != 0
    assert not (out / "checkpoint-300").exists()
    assert re.search(r"[Cc]onnection (closed|reset)|gloo|Broken pipe", err), err[-3000:]
    ended(launched(cluster, ["one", "two"], "plain", text, out, *steps, "--resume_from_checkpoint", "true", port=29513))
    assert_equal(weights(out), weights(tmp_path / "whole"))


def test_a_slow_link_costs_time_and_changes_nothing(cluster, text, tmp_path, record_property):
    seconds = {}
    for host in ("near", "far"):
        started = time.perf_counter()
        steps = ["--max_steps", "30", "--logging_steps", "10"]
        (out, _), _ = ended(launched(cluster, ["one", host], "plain", text, tmp_path / host, *steps))
        rates = re.findall(r"'anchors_per_second': '?([\d.e+]+)", out)
        seconds[host] = 8 / float(rates[-1])
        record_property(f"seconds a step, {host}", seconds[host])
        print(f"{host}: {seconds[host] * 1000:.0f} ms a step, {time.perf_counter() - started:.0f} s in all")
    assert_equal(weights(tmp_path / "far"), weights(tmp_path / "near"))
    assert seconds["far"] > seconds["near"]
