"""Checkpoints that carry their code, opened by every loader, also where this package is not installed."""

import json
import os
import subprocess

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast
from warm_python import python

from conftest import save_both
from contrastive_st import InputError
from contrastive_st.models import ForCL, QuickThoughtsConfig, QuickThoughtsGRU
from contrastive_st.models.auto import load_config
from contrastive_st.models.saving import RemoteCodeMixin

WORDS = ["the", "cat", "sat", "on", "mat", "rain", "a", "dog", "ran"]
SENTENCES = ["the cat sat on the mat", "rain", "a dog ran", "unheard words here", ""]
FILES = {"quickthoughts.py"}

BARE = """
import json, sys
sys.modules["contrastive_st"] = None  # not installed
import numpy, torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer
work = json.loads(sys.argv[1])

def embed(folder):
    model = AutoModel.from_pretrained(folder, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    with torch.inference_mode():
        return model, model(**tokenizer(work["sentences"], padding=True, return_tensors="pt")).pooler_output.numpy()

folder, out = work["folder"], work["out"]
model, vectors = embed(folder)
model.save_pretrained(out + "/again")
AutoTokenizer.from_pretrained(folder, trust_remote_code=True).save_pretrained(out + "/again")
peer = SentenceTransformer(folder, trust_remote_code=True, device="cpu")
assert peer.get_embedding_dimension() == vectors.shape[1]
peer.save_pretrained(out + "/peer")
peer_again = SentenceTransformer(out + "/peer", trust_remote_code=True, device="cpu")
found = {"here": vectors, "again": embed(out + "/again")[1], "peer": peer.encode(work["sentences"])}
found["peer again"] = peer_again.encode(work["sentences"])
try:
    AutoModel.from_pretrained(folder, trust_remote_code=False)
except ValueError as error:
    assert "trust_remote_code=True" in str(error), error
else:
    sys.exit("code was run without leave")
numpy.savez(out + "/found.npz", **found)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, its tokenizer, and their folder."""
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    inner = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    torch.manual_seed(0)
    config = QuickThoughtsConfig(
        vocab_size=len(words), embedding_size=6, hidden_size=8, bidirectional=True, word_vectors="multichannel",
        dropout=0.1,
    )  # fmt: skip
    model = QuickThoughtsGRU(config, targets="next")
    model.set_word_vectors(torch.randn(len(words), 6))
    return model.eval(), tokenizer, save_both(model, tokenizer, tmp_path_factory.mktemp("saved"))


def embed(model, tokenizer):
    with torch.inference_mode():
        return model.eval()(**tokenizer(SENTENCES, padding=True, return_tensors="pt")).pooler_output.numpy()


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_where_the_package_is_imported_no_flag_is_needed(saved, tmp_path):
    from sentence_transformers import SentenceTransformer

    model, tokenizer, out = saved
    expected = embed(model, tokenizer)
    assert np.abs(expected[:4]).sum(1).all()
    assert not expected[4].any()  # the sentence without words
    for trust in (None, True):
        again = AutoModel.from_pretrained(out, trust_remote_code=trust)
        assert type(again) is QuickThoughtsGRU
        assert not again.frozen_embeddings.weight.requires_grad
        near(embed(again, AutoTokenizer.from_pretrained(out)), expected)
    save_both(again, tokenizer, tmp_path)
    for folder in (out, tmp_path):
        assert {file.name for file in folder.iterdir()} >= FILES
        config = json.loads((folder / "config.json").read_text())
        assert config["auto_map"] == {
            "AutoConfig": "quickthoughts.QuickThoughtsConfig",
            "AutoModel": "quickthoughts.QuickThoughtsModel",
        }
        peer = SentenceTransformer(str(folder), device="cpu")
        near(peer.encode(SENTENCES), expected)
        assert peer.get_embedding_dimension() == 16


@pytest.mark.slow
def test_where_the_package_is_not_installed(saved, tmp_path):
    model, tokenizer, folder = saved
    work = {"folder": str(folder), "sentences": SENTENCES, "out": str(tmp_path)}
    done = subprocess.run(
        [python(), "-c", BARE, json.dumps(work)],
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = np.load(tmp_path / "found.npz")
    for loader in ("here", "again", "peer", "peer again"):
        near(found[loader], embed(model, tokenizer))
    returned = AutoModel.from_pretrained(tmp_path / "again")  # saved without the package, opened with it
    assert type(returned) is QuickThoughtsGRU
    assert returned.config.contrastive == json.loads(json.dumps(model.config.contrastive))  # JSON has no tuples
    near(embed(returned, tokenizer), found["here"])


BAG_CONFIG = """
from transformers import PreTrainedConfig


class BagConfig(PreTrainedConfig):
    model_type = "bag-of-words"

    def __init__(self, vocab_size=9, hidden_size=4, **kwargs):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        super().__init__(**kwargs)
"""
BAG_MODEL = """
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from .configuration_bag import BagConfig


class BagModel(PreTrainedModel):
    config_class = BagConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids, attention_mask=None):
        words = self.words(input_ids)
        return BaseModelOutputWithPooling(last_hidden_state=words, pooler_output=words.sum(1))
"""


def test_any_self_contained_class_can_be_carried(tmp_path, monkeypatch):
    package = tmp_path / "bag_of_words"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "configuration_bag.py").write_text(BAG_CONFIG)
    (package / "modeling_bag.py").write_text(BAG_MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    from bag_of_words.modeling_bag import BagModel

    class BagForCL(RemoteCodeMixin, ForCL, BagModel):
        code_class = BagModel

        def _encode(self, input_ids, attention_mask):
            return BagModel.forward(self, input_ids)

    model, folder = BagForCL(BagModel.config_class()), tmp_path / "saved"
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with pytest.raises(InputError, match="repository"):
        load_config(folder)
    ids = torch.tensor([[3, 4]])
    again = AutoModel.from_pretrained(folder, trust_remote_code=True)
    assert type(again).__name__ == "BagModel"
    assert torch.equal(again(ids).pooler_output, model(ids).pooler_output)
