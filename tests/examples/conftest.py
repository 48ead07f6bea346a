"""Files that several scripts train on."""

import pytest

from conftest import SENTENCES
from contrastive_st import ContrastiveTrainer

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
