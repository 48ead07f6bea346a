"""Files that several scripts train on."""

import multiprocessing
import os
import subprocess

import pytest

from conftest import SENTENCES
from contrastive_st import ContrastiveTrainer
from contrastive_st.training.stopping import StopOnSigterm

LABELS = ["entailment", "neutral", "contradiction"]
PAIRS = [(f"{a} {i}", b) for i in range(3) for a in SENTENCES for b in SENTENCES[:3]]


@pytest.fixture
def nli(tmp_path):
    """A table of labelled pairs."""
    rows = ["premise\thypothesis\tlabel", *(f"{a}\t{b}\t{LABELS[i % 3]}" for i, (a, b) in enumerate(PAIRS))]
    (tmp_path / "nli.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path / "nli.tsv"


@pytest.fixture
def prompts_read(monkeypatch):
    """What training reads before the text that is pooled, for each view of the first row of each step."""
    seen, step = [], ContrastiveTrainer.training_step

    def looked_at(self, model, inputs, *args):
        first = zip(inputs["input_ids"][0], inputs["text_mask"][0], strict=True)
        seen.append([self.processing_class.decode(ids[own == 0], skip_special_tokens=True) for ids, own in first])
        return step(self, model, inputs, *args)

    monkeypatch.setattr(ContrastiveTrainer, "training_step", looked_at)
    return seen


@pytest.fixture
def stop_at_step(monkeypatch):
    """A function that sends SIGTERM to this process and its own in a step of every run from then on; None: in none."""

    def stop(step):
        def begin(self, args, state, control, **kwargs):
            if state.global_step + 1 == step:
                own = [process.pid for process in multiprocessing.active_children()]
                subprocess.run(["kill", "-TERM", *map(str, [os.getpid(), *own])], check=True)

        monkeypatch.setattr(StopOnSigterm, "on_step_begin", begin)

    return stop
