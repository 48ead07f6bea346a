"""The order in which a run reads its data, with the Trainer of transformers alone."""

from torch import nn
from transformers import Trainer

from contrastive_st import ContrastiveTrainingArguments
from contrastive_st.training.order import Order


class Backwards(list):
    """Rows that say in which order they are read."""

    def sampler(self, batch_size, seed):
        assert (batch_size, seed) == (2, 5)
        return range(len(self) - 1, -1, -1)


def test_rows_with_a_sampler_are_read_in_its_order_and_others_by_transformers(tmp_path):
    args = ContrastiveTrainingArguments(str(tmp_path), data_seed=5, report_to="none")
    for rows, batches in ((Backwards(range(5)), [[4, 3], [2, 1]]), (list(range(5)), None)):
        loader = Order(Trainer(nn.Linear(1, 1), args, train_dataset=rows, data_collator=list)).loader(2)
        assert (loader and list(loader)) == batches
