"""Collators: literal tensors, and what a row of the wrong shape gets."""

import pytest
import torch
from datasets import Dataset

from contrastive_st import DropoutPairCollator, InputError, NLITripletCollator, PairCollator
from contrastive_st.data import (
    CandidatesCollator,
    CropPairCollator,
    DeletionCollator,
    LabelledPairCollator,
    TeacherCollator,
    check_max_length,
)
from contrastive_st.data.tokenization import tokenize


def ids(tokenizer, *texts):
    return [tokenizer(text)["input_ids"] for text in texts]


def test_a_dropout_pair_is_one_text_twice(tokenizer):
    first, second = ids(tokenizer, "the cat sat", "a dog")
    batch = DropoutPairCollator(tokenizer)([{"input_ids": first}, {"input_ids": second}])
    pad = [0] * (len(first) - len(second))
    assert batch["input_ids"].tolist() == [[first, first], [second + pad, second + pad]]
    assert batch["attention_mask"].tolist() == [[[1] * len(first)] * 2, [[1] * len(second) + pad] * 2]
    assert batch["token_type_ids"].shape == batch["input_ids"].shape


@pytest.mark.parametrize("num_texts", [2, 3, 4])
def test_texts_stay_in_their_row_and_view(tokenizer, num_texts):
    kind = PairCollator if num_texts == 2 else NLITripletCollator
    rows = [ids(tokenizer, *(f"{word} {i}" for i in range(num_texts))) for word in ("cat", "dog on the mat", "rain")]
    batch = kind(tokenizer)([{"input_ids": row} for row in rows])
    assert batch["input_ids"].shape[:2] == (3, num_texts)
    for row, views, masks in zip(rows, batch["input_ids"], batch["attention_mask"], strict=True):
        assert [view[mask.bool()].tolist() for view, mask in zip(views, masks, strict=True)] == row


def test_mlm_masks_copies_and_leaves_the_contrastive_inputs_alone(tokenizer):
    row = {"input_ids": tokenizer("the cat sat on the mat today")["input_ids"]}
    plain = DropoutPairCollator(tokenizer)([row] * 8)
    batch = DropoutPairCollator(tokenizer, do_mlm=True, mlm_probability=0.4)([row] * 8)
    assert torch.equal(batch["input_ids"], plain["input_ids"])
    predicted = batch["mlm_targets"] != -100
    assert predicted.any()
    assert torch.equal(batch["mlm_targets"][predicted], batch["input_ids"][predicted])
    assert torch.equal(batch["mlm_input_ids"][~predicted], batch["input_ids"][~predicted])
    assert (batch["mlm_input_ids"][predicted] == tokenizer.mask_token_id).any()
    special = torch.isin(batch["input_ids"], torch.tensor(tokenizer.all_special_ids))
    assert not (predicted & special).any()


def test_rows_of_the_wrong_shape_are_named(tokenizer):
    one, two = ids(tokenizer, "a cat", "a dog")
    with pytest.raises(InputError, match="DropoutPairCollator"):
        PairCollator(tokenizer)([{"input_ids": one}])
    with pytest.raises(InputError, match="PairCollator"):
        DropoutPairCollator(tokenizer)([{"input_ids": [one, two]}])
    with pytest.raises(InputError, match="hard negative"):
        NLITripletCollator(tokenizer)([{"input_ids": [one, two]}])
    with pytest.raises(InputError, match=r"\[2, 3\]"):
        PairCollator(tokenizer)([{"input_ids": [one, two]}, {"input_ids": [one, two, one]}])


ONE_TEXT = {"input_ids": [[2, 7, 8, 9, 3], [2, 5, 6, 9, 8, 5, 3]], "prompt_length": [1, 2]}
THREE_TEXTS = {"input_ids": [[[2, 7, 3], [2, 8, 3], [2, 9, 3]]] * 2, "prompt_length": [[1, 2, 1], [2, 1, 1]]}


@pytest.mark.parametrize("form", ["numpy", "torch"])
@pytest.mark.parametrize(("kind", "columns"), [
    (DropoutPairCollator, ONE_TEXT), (CropPairCollator, ONE_TEXT), (DeletionCollator, ONE_TEXT),
    (TeacherCollator, ONE_TEXT | {"teacher": [[0.5, 0.5], [1.0, 0.0]]}), (PairCollator, THREE_TEXTS),
    (LabelledPairCollator, ONE_TEXT | {"label": [0, 1]}),
    (CandidatesCollator, THREE_TEXTS | {"scores": [[0.5, 2.0], [0.1, 1.0]]}),
])  # fmt: skip
def test_the_format_of_a_dataset_changes_no_batch(tokenizer, kind, columns, form):
    rows, collate = Dataset.from_dict(columns), kind(tokenizer)
    usual, batch = collate([*rows]), collate([*rows.with_format(form)])
    assert batch.keys() == usual.keys()
    for name, tensor in usual.items():
        torch.testing.assert_close(batch[name], tensor, rtol=0, atol=0)


def test_the_same_texts_are_tokenized_once(tokenizer, monkeypatch):
    texts = Dataset.from_dict({"text": ["a cat", "a dog ran", f"{id(monkeypatch)}"]})
    first = tokenize(texts, tokenizer, 5)
    monkeypatch.setattr("contrastive_st.data.tokenization.id_reader", lambda *args: None)
    again = tokenize(Dataset.from_dict({"text": texts["text"][:]}), tokenizer, 5)
    assert again["input_ids"][:] == first["input_ids"][:]
    with pytest.raises(TypeError):  # another length is not the same
        tokenize(texts, tokenizer, 6)


@pytest.mark.parametrize(("length", "words"), [(2, "3 or more"), (513, "at most 512")])
def test_a_length_that_cannot_be_is_said(length, words):
    with pytest.raises(InputError, match=words):
        check_max_length(length, 512)
