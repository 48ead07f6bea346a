"""Words predicted from states of tokens: masked LM, TSDAE and Skip-Thoughts.

A loss of views is a function of the vectors of a batch. These losses need states of tokens: of a masked copy of the
text, or of a decoder that generates words from its vector. The words of a row depend on that row alone: their loss is

    weight * (sum over the rows of the cross-entropies of their words) / (number of words on all processes)

A plain step adds it to the loss of views, and a GradCache step adds its part for each chunk (`training/gradcache.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from contrastive_st.buckets import flat_indices, on_device
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.functional import at_least_float32
from contrastive_st.models.architectures.quickthoughts import PackedGRU, Packing

Inputs: TypeAlias = dict[str, Any]  # the arguments of a model: tensors, and what the host knows of them
Rows = NDArray[np.int64] | None  # numbers of the rows of a chunk; None: all rows of the batch
Pairs = list[tuple[Tensor, Tensor]]  # for each decoder, row numbers `[m]` of vectors and of sentences to generate


@dataclass(frozen=True)
class Words:
    """The words that a batch predicts.

    Attributes:
        weight: of their mean cross-entropy in the loss.
        count: their number on this process.
        sum_of: returns the sum of the cross-entropies of the words of some rows, given the vectors of these rows
            `[n, d]` (`[B * V, d]` for all) and their numbers.
    """

    weight: float
    count: int
    sum_of: Callable[[Tensor, Rows], Tensor]

    def parts(self, gather: Gather = LOCAL, counts: bool = True) -> Callable[[Tensor, Rows], Tensor]:
        """A function like `sum_of` that returns the part of the loss that is due to some rows.

        Their sum over all rows averages over the processes to the whole. This is a collective call; the function may
        then be called once or for each chunk, of which processes may have different numbers. The parts of a batch that
        does not count are zero.
        """
        scale = counts * self.weight * gather.world / max(gather.total(counts * self.count), 1)
        return lambda vectors, rows: self.sum_of(vectors, rows) * scale


def cross_entropies(scores: Callable[[Tensor], Tensor], states: Tensor, words: Tensor, count: int) -> Tensor:
    """The sum of the cross-entropies of `words`, `[N, L]` (-100: none), given states `[N, L, d]`.

    Args:
        scores: the head, which gives scores of all words for states `[n, d]`; it only gets states to predict from.
        states: `[N, L, d]`.
        words: `[N, L]`.
        count: number of words, which the host must know.
    """
    places = flat_indices(words != -100, count)
    logits = at_least_float32(scores(states.flatten(0, 1)[places]))
    if not count:
        return logits.sum()  # zero, with every parameter in its graph as DDP expects
    return functional.cross_entropy(logits, words.flatten()[places], reduction="sum")


def row_index(rows: Rows, device: torch.device) -> Tensor | slice:
    """What takes these rows from a tensor of the device."""
    return slice(None) if rows is None else on_device(rows, device)


# --- Decoders of vectors.


class VectorDecoder(nn.Module):
    """A decoder that shares the encoder's layers: each token sees the tokens before it and one sentence vector.

    The decoder only adds a cross-attention to each layer, between self-attention and feed-forward. Attention to a
    single vector always has weight 1, so its output is that of the value and output projections; queries and keys would
    have no effect and no gradient, and are left out.

    Args:
        config: a config of BERT, RoBERTa, XLM-RoBERTa or CamemBERT.
        width: dimension of the sentence vectors.

    Raises:
        InputError: a config of another family, whose layers have another structure.
    """

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        if config.model_type not in ("bert", "roberta", "xlm-roberta", "camembert"):
            raise InputError(
                "tsdae needs BERT, RoBERTa, XLM-RoBERTa or CamemBERT, and this is "
                f"{config.model_type}; use one of those families"
            )
        dim, layers = config.hidden_size, range(config.num_hidden_layers)
        self.values = nn.ModuleList(nn.Linear(width, dim) for _ in layers)
        self.outputs = nn.ModuleList(nn.Linear(dim, dim) for _ in layers)
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=config.layer_norm_eps) for _ in layers)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, encoder: Any, input_ids: Tensor, vectors: Tensor) -> Tensor:
        """The states `[N, L, d]` from which the next tokens are predicted.

        Args:
            encoder: the encoder, a model of transformers.
            input_ids: `[N, L]`, padded on the right; real tokens do not see the padding.
            vectors: `[N, width]`, the sentence vectors.
        """
        hidden = encoder.embeddings(input_ids=input_ids)
        later = torch.ones(2 * input_ids.shape[1:], dtype=torch.bool, device=hidden.device).triu(1)
        unseen = hidden.new_zeros(later.shape).masked_fill(later, torch.finfo(hidden.dtype).min)[None, None]
        for layer, value, output, norm in zip(
            encoder.encoder.layer, self.values, self.outputs, self.norms, strict=True
        ):
            attended = layer.attention(hidden, unseen)[0]
            crossed = norm(self.dropout(output(value(vectors)))[:, None] + attended)
            hidden = layer.feed_forward_chunk(crossed)
        states: Tensor = hidden
        return states


END = 0  # the id of padding, which is not a word: decoders start from it and end with it


class Decoders(nn.Module):
    """GRUs that generate sentences from vectors, word by word, with one adaptive softmax for all.

    Each reads the previous word (teacher forcing) and the vector at every step, as the conditional gates of Kiros et
    al. 2015 do. The softmax has three clusters (Grave et al. 2017, https://arxiv.org/abs/1609.04309); it is exact, and
    fast if ids are sorted by descending frequency, as those of word tokenizers are.

    Args:
        names: a name for each decoder.
        words: dimension of the word vectors.
        vectors: dimension of the sentence vectors.
        hidden: of the states of the decoders.
        vocabulary: number of words.
    """

    def __init__(self, names: Sequence[str], words: int, vectors: int, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.names = tuple(names)
        for name in self.names:
            setattr(self, name, PackedGRU(words + vectors, hidden))
        self.hidden = hidden
        self.resize(vocabulary)

    def resize(self, vocabulary: int) -> None:
        """Make a new softmax, over another number of words."""
        often = sorted({max(vocabulary // 10, 1), max(vocabulary // 2, 1)})
        self.words = nn.AdaptiveLogSoftmaxWithLoss(self.hidden, vocabulary, often)

    def forward(self, table: Tensor, vectors: Tensor, sentences: Mapping[str, Tensor], pairs: Pairs) -> Tensor:
        """The sum of the losses of all words to generate.

        Args:
            table: word vectors `[W, e]`.
            vectors: sentence vectors `[n, d]`.
            sentences: `input_ids` and `attention_mask` `[N, L]`, padded on the right.
            pairs: for each decoder, the row numbers of `vectors` and of the sentences to generate from them.
        """
        states, words = [], []
        mask, end = sentences["attention_mask"], torch.full_like(sentences["input_ids"][:, :1], END)
        ids, mask = sentences["input_ids"] * mask, torch.cat([end + 1, mask], 1)
        read, write = torch.cat([end, ids], 1), torch.cat([ids, end], 1)  # the previous word, and the word
        for name, (readers, written) in zip(self.names, pairs, strict=True):
            packing = Packing(mask[written])
            context = vectors[readers][packing.source // mask.shape[1]]
            before = functional.embedding(read[written].flatten()[packing.source], table, padding_idx=END)
            states.append(getattr(self, name)(torch.cat([before, context], 1), packing))
            words.append(write[written].flatten()[packing.source])
        result, labels = at_least_float32(torch.cat(states)), torch.cat(words)
        with torch.autocast(result.device.type, enabled=False):
            if len(labels):
                loss: Tensor = -self.words(result, labels).output.sum()
                return loss
            # without sentences to generate the loss is zero, but depends on every parameter, as DDP expects
            return result.sum() + sum((p.sum() * 0 for p in self.parameters()), torch.zeros(()))
