"""A stock trainer of two processes trains one model, or is refused."""

import pytest
from ranks import together
from transformers import BertConfig, Trainer, TrainingArguments

from contrastive_st import BertForCL, PairCollator
from contrastive_st.data import train_wordpiece
from contrastive_st.errors import InputError

WORDS = [f"word{i}" for i in range(30)]
pytestmark = pytest.mark.slow


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
