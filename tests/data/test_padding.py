"""Padding is on the right whatever the tokenizer says, and a padding token that stands in a text is a token of it."""

import copy

import pytest
import torch

from contrastive_st import DropoutPairCollator, PairCollator
from contrastive_st.data import CooccurrenceCollator, FramePairCollator, LabelledPairCollator
from contrastive_st.models.modeling import FAMILIES

ROWS = [{"input_ids": [[2, 7, 8, 3], [2, 9, 3]], "label": 1}, {"input_ids": [[2, 5, 3], [2, 6, 3]], "label": 0}]


@pytest.mark.parametrize("kind", [PairCollator, LabelledPairCollator, FramePairCollator])
@pytest.mark.parametrize("multiple", [None, 8])
def test_a_tokenizer_that_pads_on_the_left_changes_nothing(tokenizer, kind, multiple):
    left = copy.deepcopy(tokenizer)
    left.padding_side = "left"
    expected = kind(tokenizer, pad_to_multiple_of=multiple)(ROWS)
    batch = kind(left, pad_to_multiple_of=multiple)(ROWS)
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        name: tensor.tolist() for name, tensor in expected.items()
    }
    assert batch["input_ids"].shape[-1] == (multiple or 4)
    assert batch["attention_mask"][..., 0].all()


def test_single_sentences_are_padded_on_the_right_too(tokenizer):
    left = copy.deepcopy(tokenizer)
    left.padding_side = "left"
    rows = [{"input_ids": [2, 7, 3]}, {"input_ids": [2, 3]}]
    for kind in (DropoutPairCollator, CooccurrenceCollator):
        assert kind(left)(rows)["input_ids"][1, 0].tolist() == [2, 3, 0]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_a_padding_token_in_a_text_means_the_same_in_buckets(family):
    """RoBERTa's kin count positions over the ids; in buckets they are given embeddings, and could not count so."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    special = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    config = family.config_class(vocab_size=50, max_position_embeddings=24, pad_token_id=1, **sizes, **special)
    model = family(config, pooling="mean").double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 4)  # the first weights hardly tell positions apart
    batch = PairCollator(_Pads(1))([{"input_ids": [[2, 7, 1, 8, 9, 3], [2, 6, 3]]}])
    batch.pop("token_type_ids", None)
    bucketed = model.embed(**batch)
    model.length_bucketing = False
    torch.testing.assert_close(bucketed, model.embed(**batch), rtol=1e-9, atol=1e-9)


class _Pads:
    model_input_names = ("input_ids", "attention_mask")

    def __init__(self, pad_token_id):
        self.pad_token_id = pad_token_id
