"""Padding is on the right whatever the tokenizer says, and a padding token that stands in a text is a token of it."""

import copy

import pytest
import torch
from plain import in_double

from contrastive_st import PairCollator
from contrastive_st.buckets import in_order, training_buckets
from contrastive_st.data import LabelledPairCollator
from contrastive_st.models import families
from contrastive_st.models.families import family as class_of
from contrastive_st.training.gradcache import Chunks
from sequences import FramePairCollator

DECODERS, FAMILIES = ([class_of(kind) for kind in rows] for rows in (families.DECODERS, families.ENCODERS))
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
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


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_a_padding_token_in_a_text_means_the_same_in_buckets(family):
    """RoBERTa's kin count positions over the ids; in buckets they are given embeddings, and could not count so."""
    config = family.config_class(vocab_size=50, max_position_embeddings=24, pad_token_id=1, **SIZES, **SPECIAL)
    model = family(config, pooling="mean").double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 4)  # the first weights hardly tell positions apart
    batch = PairCollator(_Pads(1))([{"input_ids": [[2, 7, 1, 8, 9, 3], [2, 6, 3]]}])
    batch.pop("token_type_ids", None)
    bucketed = model.embed(**batch)
    model.length_bucketing = False
    torch.testing.assert_close(bucketed, model.embed(**batch), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES + DECODERS, ids=lambda family: family.__name__)
def test_the_buckets_of_every_device_give_the_same_embeddings(family):
    """Those of a GPU and of a CPU, many small ones, GradCache chunks, and none; with lengths known to the host or read.

    The longest row is one that only just has room: it must not be padded to more positions than there are.
    """
    encoder = {"max_position_embeddings": 24, **SPECIAL}
    own = {"num_key_value_heads": 1, "head_dim": 8} if family in DECODERS else encoder
    model = in_double(family(family.config_class(vocab_size=50, pad_token_id=1, **SIZES, **own), pooling="last")).eval()
    rows = [{"input_ids": [[7] * n, list(range(5, 5 + n))]} for n in (9, 2, 5, 1, 9, 3, 12, 21)]
    batch = PairCollator(_Pads(1))(rows)
    batch.pop("token_type_ids", None)
    lengths = batch["attention_mask"].sum(-1).numpy()
    model.length_bucketing = False
    expected = model.embed(**batch)
    near = 1e-6 if family.__name__ == "Gemma2ForCL" else 1e-9  # its softmax is in float32 whatever the weights are in
    model.length_bucketing = True
    for device in ("cpu", "cuda"):
        for options in ({}, {"min_tokens": 1, "max_padding": 0.0}):
            model.bucket_options = training_buckets(torch.device(device), options)
            for known in ({}, {"lengths": lengths}):
                torch.testing.assert_close(model.embed(**batch, **known), expected, rtol=0, atol=near)
    chunks, order = Chunks(3, most=model.positions).cut(batch)
    chunked = in_order([model(**rows).pooler_output for rows in chunks], order).view_as(expected)
    torch.testing.assert_close(chunked, expected, rtol=0, atol=near)


class _Pads:
    model_input_names = ("input_ids", "attention_mask")

    def __init__(self, pad_token_id):
        self.pad_token_id = pad_token_id
