"""The handler of a Hugging Face Inference Endpoint: put it and requirements.txt into the model's repository.

    {"inputs": "a text", "parameters": {"prompt_name": "query"}}                        -> [d] numbers
    {"inputs": ["a text", "another"], "parameters": {"normalize_embeddings": true}}     -> [n, d] numbers
    {"inputs": {"source_sentence": "a text", "sentences": ["another", "a third"]}}      -> [n] cosines

The parameters are those of `SentenceEncoder.encode` in `PARAMETERS`.
"""

from typing import Any

from contrastive_st import SentenceEncoder
from contrastive_st.errors import InputError

PARAMETERS = ("prompt_name", "prompt", "normalize_embeddings", "truncate_dim")


class EndpointHandler:
    """Opens the model in `path` once, and answers requests."""

    def __init__(self, path: str = "") -> None:
        self.encoder = SentenceEncoder(path, precision="auto")

    def __call__(self, data: dict[str, Any]) -> list[Any]:
        """Answer one request; what is wrong with it is the message of the error (`InputError`)."""
        if "inputs" not in data:
            raise InputError("no inputs; give a text, a list of texts, or source_sentence and sentences")
        inputs, options = data["inputs"], data.get("parameters") or {}
        if unknown := sorted(set(options) - set(PARAMETERS)):
            raise InputError(f"unknown parameters {', '.join(unknown)}; there are {', '.join(PARAMETERS)}")
        if not isinstance(inputs, dict):
            found: list[Any] = self.encoder.encode(inputs, **options).tolist()
            return found
        if not {"source_sentence", "sentences"} <= set(inputs):
            raise InputError("inputs: give source_sentence and sentences, a text, or a list of texts")
        cosines: list[float] = self.encoder.similarity([inputs["source_sentence"]], inputs["sentences"])[0].tolist()
        return cosines
