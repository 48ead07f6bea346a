"""Students cut out of teachers of several families, and trimmed vocabularies."""

import numpy as np
import pytest
import torch
from small_checkpoints import tokenizer_of_words
from tokenizers import Tokenizer, models
from transformers import BertConfig, ModernBertConfig, PreTrainedTokenizerFast, RobertaConfig

from contrastive_st.errors import InputError
from contrastive_st.models import AutoModelForCL, SentenceEncoder, add_lora, student_of
from contrastive_st.models.students import trimmed_tokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "sat", "ran", "red", "a", "##s", "z", "##z"]
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "pad_token_id": 0,
}
FAMILIES = {
    "bert": lambda: BertConfig(**SHAPE, max_position_embeddings=40),
    "roberta": lambda: RobertaConfig(**SHAPE, max_position_embeddings=40),
    "modernbert": lambda: ModernBertConfig(
        **SHAPE, max_position_embeddings=40, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3
    ),
}


def teacher(family):
    torch.manual_seed(0)
    return SentenceEncoder(
        AutoModelForCL.from_config(FAMILIES[family](), pooling="mean").eval(),
        tokenizer_of_words(WORDS, "[CLS] $A [SEP]", model_max_length=32),
    )


def adapted(model, folder):
    model.save_pretrained(folder)
    model = add_lora(AutoModelForCL.from_pretrained(folder), r=2).eval()
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight)
    return SentenceEncoder(model, tokenizer_of_words(WORDS, "[CLS] $A [SEP]", model_max_length=32))


@pytest.mark.parametrize("family", FAMILIES)
def test_all_layers_are_the_teacher_and_fewer_are_those_layers(family, tmp_path):
    texts = ["the cat sat", "a red dog ran", "dogs"]
    own = teacher(family)
    for one in (own, adapted(own.model, tmp_path)):
        np.testing.assert_allclose(student_of(one, [0, 1, 2, 3]).encode(texts), one.encode(texts), atol=2e-5)
    student = student_of(own, [0, 3])
    assert student.model.config.num_hidden_layers == 2
    names = {name for name, _ in student.model.named_parameters()}
    last = {name: p for name, p in own.model.named_parameters() if ".3." in name}
    assert last
    for name, weight in last.items():
        assert name.replace(".3.", ".1.") in names
        torch.testing.assert_close(student.model.state_dict()[name.replace(".3.", ".1.")], weight.data)
    assert np.isfinite(student.encode(texts)).all()


def test_the_settings_of_an_open_teacher_are_those_of_the_student():
    own = SentenceEncoder(teacher("bert").model, tokenizer_of_words(WORDS, "[CLS] $A [SEP]"), max_length=7)
    assert student_of(own, [0, 3]).max_length == 7
    student = student_of(own, [0, 3], max_length=5, pooling="max")
    assert (student.max_length, student.pooling, own.max_length) == (5, "max", 7)
    own = AutoModelForCL.from_config(FAMILIES["bert"](), pooling="mean", loss="tsdae")  # its decoder has layers, too
    student = student_of(
        SentenceEncoder(own, tokenizer_of_words(WORDS, "[CLS] $A [SEP]", model_max_length=32)),
        [0, 3],
        loss="embedding_distillation",
    ).model.state_dict()
    name = "bert.encoder.layer.{}.output.dense.weight"
    torch.testing.assert_close(student[name.format(1)], own.state_dict()[name.format(3)])


def test_a_trimmed_vocabulary_reads_kept_words_the_same():
    own = teacher("bert")
    own.tokenizer.add_tokens(["covid", "flu"])
    own.model.resize_token_embeddings(len(own.tokenizer), mean_resizing=False)
    own.model.change_settings(do_mlm=True)
    student = student_of(own, [0, 1, 2, 3], vocabulary=["the", "cat", "sat", "flu"])
    np.testing.assert_allclose(student.encode(["the cat sat flu"]), own.encode(["the cat sat flu"]), atol=1e-6)
    assert len(student.tokenizer) < len(WORDS)
    assert student.model.get_input_embeddings().weight.shape[0] == len(student.tokenizer)
    assert student.tokenizer("zzz a")["input_ids"][0] == student.tokenizer.cls_token_id
    assert student.tokenizer.tokenize("zz") == ["z", "##z"]


@pytest.mark.parametrize("layers", [[], [3, 0], [0, 0], [0, 4], [-1, 0]])
def test_layers_that_are_not_there(layers):
    with pytest.raises(InputError, match="ascending"):
        student_of(teacher("bert"), layers)


def test_a_static_model_has_no_layers_to_keep():
    with pytest.raises(InputError, match="teacher"):
        student_of("static-minilm")


def test_only_word_pieces_are_trimmed():
    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    with pytest.raises(InputError, match="WordPiece"):
        trimmed_tokenizer(PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]"), ["a"])
