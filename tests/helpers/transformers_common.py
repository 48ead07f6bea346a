"""transformers' common tests of models, on the classes of this package; run by `tests/contracts/test_transformers.py`.

`CONTRASTIVE_ST_TRANSFORMERS` is the unpacked source distribution of the installed transformers. It lacks the tests of
exporting and generating, which no encoder has: two empty classes stand for them.
"""

import os
import sys
import types
import unittest

import torch
from transformers import CONFIG_MAPPING, set_seed

from contrastive_st.models.families import DECODERS, ENCODERS, transformers_family

sys.path.insert(0, os.environ["CONTRASTIVE_ST_TRANSFORMERS"])
for module, name in (
    ("exporters", ""), ("exporters.test_export", "ExportTesterMixin"),
    ("generation", ""), ("generation.test_utils", "GenerationTesterMixin"),
):  # fmt: skip
    empty = types.ModuleType(f"tests.{module}")
    setattr(empty, name or "__path__", type(name, (), {}) if name else [])
    sys.modules[empty.__name__] = empty

from tests import test_modeling_common as common  # noqa: E402

#: Parts of names of tests that do not apply, and why
LEFT_OUT = {
    "model_weights_reload_no_missing_tied_weights": "it opens a file without the model's weights, which is refused",
}
#: The same of one family
OF_FAMILY = {
    ("t5", "hidden_states_output"): "it asks for states of the decoder, and only the encoder is used",
    ("modernbert", "can_init_all_missing_weights"): "transformers passes modules of classes outside of it by, where "
    "ModernBERT scales new weights; a file that lacks weights is refused",
}
SMALL = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 24, "embedding_size": 32, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip
#: Settings of a family beside those
MORE = {
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 32},
    "modernbert": {"local_attention": 8, "pad_token_id": 0}
    | dict.fromkeys(("cls_token_id", "bos_token_id"), 1)
    | dict.fromkeys(("sep_token_id", "eos_token_id"), 2),
    "t5": {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 32},
}


class Small:
    """A small config and a batch, as the common tests ask for them."""

    is_training, batch_size, seq_length = True, 3, 7
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4

    def __init__(self, model_type):
        self.model_type = model_type

    def get_config(self):
        pooling = "last" if self.model_type in DECODERS else "mean"  # few have a projection head
        more = {"contrastive": {"pooling": pooling}, **MORE.get(self.model_type, {})}
        return CONFIG_MAPPING[self.model_type](**SMALL | more)

    def prepare_config_and_inputs_for_common(self):
        ids = common.ids_tensor([self.batch_size, self.seq_length], 47) + 3  # without the special tokens
        return self.get_config(), {"input_ids": ids, "attention_mask": common.random_attention_mask(list(ids.shape))}


def common_tests(model_type):
    def setup(self):
        set_seed(0)
        self.model_tester = Small(model_type)
        reasons = LEFT_OUT | {part: why for (family, part), why in OF_FAMILY.items() if family == model_type}
        if why := next((why for part, why in reasons.items() if part in self._testMethodName), None):
            self.skipTest(why)

    family = transformers_family(model_type)

    def prepare(self, inputs, model_class, return_labels=False):
        """With labels, what gives a loss: pairs of texts, `[B, 2, L]`."""
        if return_labels:
            return {name: torch.stack([tensor, tensor.flip(0)], 1) for name, tensor in inputs.items()}
        return dict(inputs)

    body = {"all_model_classes": (family,), "setUp": setup, "_prepare_for_class": prepare}
    return type(f"Test{family.__name__}", (common.ModelTesterMixin, unittest.TestCase), body)


for model_type in (*ENCODERS, *DECODERS, "albert", "t5"):
    globals()[f"Test_{model_type.replace('-', '_')}"] = common_tests(model_type)
