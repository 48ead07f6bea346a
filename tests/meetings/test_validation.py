"""Two processes train one model, whatever evaluates it before and in between."""

import os
import random

import pytest
from transformers import BertConfig, Trainer, TrainingArguments

from contrastive_st import BertForCL, PairCollator
from contrastive_st.data import train_wordpiece
from contrastive_st.errors import InputError
from meetings.processes import together

WORDS = [f"word{i}" for i in range(30)]
pytestmark = pytest.mark.slow


def script(folder, *options):
    """The weights of this process after a run of examples/train.py."""
    import train

    kept = {}
    finish = train.scripts.finish

    def keep(trainer):
        result = finish(trainer)
        kept.update({name: weight.numpy() for name, weight in trainer.model.state_dict().items()})
        return result

    train.scripts.finish = keep
    train.main([
        "--train_file", f"{folder}/pairs.csv", "--num_layers", "1", "--hidden_size", "16", "--max_steps", "4",
        "--per_device_train_batch_size", "8", "--learning_rate", "1e-2", "--report_to", "none", "--eval_steps", "1",
        "--save_steps", "1", "--disable_tqdm", "true", "--output_dir", f"{folder}/{len(os.listdir(folder))}", *options,
    ])  # fmt: skip
    return kept


def same(ours, reference):
    assert ours.keys() == reference.keys()
    return all((weight == reference[name]).all() for name, weight in ours.items())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("pairs"), random.Random(0)
    for name in ("pairs", "held_out"):
        rows = [f"{' '.join(draw.sample(WORDS, 4))},{' '.join(draw.sample(WORDS, 4))}" for _ in range(70)]
        (folder / f"{name}.csv").write_text("\n".join(["anchor,positive", *rows]))
    return folder


def test_a_script_that_evaluates_trains_the_same_weights(pairs, tmp_path):
    (plain, other) = together(2, script, pairs)
    assert same(plain, other)
    file = ["--validation_file", f"{pairs}/held_out.csv", "--load_best_model_at_end", "false"]
    for weights in together(2, script, pairs, *file):
        assert same(weights, plain)
    first, second = together(2, script, pairs, "--validation_split", "0.1", "--early_stopping_patience", "4")
    assert same(first, second)


def stock(folder, evaluates):
    """What the Trainer of transformers says of its first step."""
    tokenizer = train_wordpiece([" ".join(WORDS)] * 3, 80, max_length=16)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForCL(BertConfig(vocab_size=80, **shape))
    rows = [{"input_ids": [[2, 5 + i, 7, 3], [2, 9 + i, 8, 3]]} for i in range(16)]
    args = TrainingArguments(
        str(folder), per_device_train_batch_size=4, max_steps=2, report_to="none", save_strategy="no",
        remove_unused_columns=False, disable_tqdm=True, use_cpu=True, label_names=[],
    )  # fmt: skip
    trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows, data_collator=PairCollator(tokenizer))
    if evaluates:
        trainer.evaluate()
    before = model.state_dict()["bert.pooler.dense.weight"].clone()
    try:
        trainer.train()
    except InputError as error:
        return str(error), bool((before == model.state_dict()["bert.pooler.dense.weight"]).all())
    return "trained", False


def test_the_first_step_of_a_stock_trainer_that_does_not_average_gradients_is_refused(tmp_path):
    assert together(2, stock, tmp_path, False) == [("trained", False)] * 2
    for message, unchanged in together(2, stock, tmp_path, True):
        assert "2 processes" in message
        assert "DistributedDataParallel" in message
        assert unchanged
