"""What cannot be exported is told with its cause, before a package of the export is asked for."""

import pytest
import torch
from small_checkpoints import sentence_transformers_folder
from transformers import BertModel

from conftest import save_both
from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.models import QuickThoughtsConfig, QuickThoughtsGRU
from contrastive_st.models.export import export


def two_poolings(folder, config, tokenizer):
    folder.mkdir()
    folder = sentence_transformers_folder(folder, BertModel(config), tokenizer, ["mean_tokens", "max_tokens"])
    return SentenceEncoder(folder)


def rounded(folder, config, tokenizer):
    return SentenceEncoder(save_both(BertForCL(config), tokenizer, folder), precision="bf16")


def recurrent(folder, config, tokenizer):
    shape = QuickThoughtsConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=8)
    return SentenceEncoder(QuickThoughtsGRU(shape), tokenizer)


def elsewhere(folder, config, tokenizer):
    return SentenceEncoder(BertForCL(config).to(torch.device("meta")), tokenizer)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (two_poolings, r"\(Pooling by m\w+ and m\w+\) that no graph of this package has"),
        (rounded, "is in bf16; export it from fp32"),
        (recurrent, "not a transformer but a QuickThoughtsGRU"),
        (elsewhere, r"is on meta; export it on the cpu"),
        (lambda *_: SentenceEncoder(), "is a static model"),
    ],
    ids=["two poolings", "rounded", "recurrent", "elsewhere", "static"],
)
def test_the_message_names_the_one_cause(make, words, bert_config, tokenizer, tmp_path):
    encoder = make(tmp_path / "model", bert_config, tokenizer)
    with pytest.raises(InputError, match=words):
        export(encoder, tmp_path / "x")
    assert not (tmp_path / "x").exists()
