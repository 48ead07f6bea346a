"""How to open a checkpoint, as code that runs as it stands."""

from __future__ import annotations

from contrastive_st.hub.facts import Facts

_SENTENCES = '["A sentence.", "Another one."]'
_POOLED = {
    "cls": "output.pooler_output",
    "cls_before_pooler": "output.last_hidden_state[:, 0]",
    "mean": "(output.last_hidden_state * mask).sum(1) / mask.sum(1)",
    "max": 'output.last_hidden_state.masked_fill(mask == 0, float("-inf")).amax(1)',
    "last": "output.last_hidden_state[range(len(mask)), mask[..., 0].sum(1) - 1]",
    "avg_first_last": "((output.hidden_states[1] + output.hidden_states[-1]) / 2 * mask).sum(1) / mask.sum(1)",
    "avg_top2": "((output.hidden_states[-2] + output.hidden_states[-1]) / 2 * mask).sum(1) / mask.sum(1)",
}  # of right-padded batches, as contrastive_st.models.pool does it


def snippets(facts: Facts, name: str) -> dict[str, str]:
    """Code by loader; each leaves the vectors of two sentences in `embeddings`."""
    found = {"this package": _this_package(name)}
    if facts.opens_in_sentence_transformers:
        found["sentence-transformers"] = _sentence_transformers(facts, name)
    if facts.needs_remote_code or facts.pooling in _POOLED:
        found["transformers"] = _transformers(facts, name)
    return found


def _this_package(name: str) -> str:
    return f"""from contrastive_st import SentenceEncoder

encoder = SentenceEncoder.from_pretrained("{name}")
embeddings = encoder.encode({_SENTENCES})"""


def _sentence_transformers(facts: Facts, name: str) -> str:
    flag = ", trust_remote_code=True" if facts.needs_remote_code else ""
    return f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}"{flag})
embeddings = model.encode({_SENTENCES})"""


def _transformers(facts: Facts, name: str) -> str:
    flag = ", trust_remote_code=True" if facts.needs_remote_code else ""
    pooled = "output.pooler_output" if facts.needs_remote_code else _POOLED[str(facts.pooling)]
    mask = '\nmask = batch["attention_mask"][..., None]' if "mask" in pooled else ""
    return f"""import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{flag})
model = AutoModel.from_pretrained("{name}"{flag})
batch = tokenizer({_SENTENCES}, padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    output = model(**batch){mask}
embeddings = {pooled}"""
