"""Imported once, before the processes of the runs are forked from it: what they would all import and build."""

import gc
import importlib

import torch
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

for name in (
    "accelerate", "contrastive_st.data.mixture", "contrastive_st.data.neighbor_pairs",
    "contrastive_st.evaluation.evaluators",
    "contrastive_st.hub.cards", "contrastive_st.losses.multi_task", "contrastive_st.models.static_encoder",
    "contrastive_st.models.encoder", "contrastive_st.models.word_models", "contrastive_st.models.wrapped",
    "contrastive_st.scripts.encoder", "contrastive_st.scripts.run", "contrastive_st.training.trainer", "datasets",
    "peft", "sentence_transformers", "sentence_transformers.sentence_transformer.evaluation", "tensorboard",
    "torch.nn.parallel", "torch.utils.tensorboard", "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
):  # fmt: skip
    importlib.import_module(name)
get_checkpoint_conversion_mapping("bert")
torch.compile(lambda x: x + 1, backend="eager", dynamic=True)(torch.ones(2))
torch._dynamo.reset()
gc.freeze()  # accelerate collects garbage before each run, and would look at all of this
