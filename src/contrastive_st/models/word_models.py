"""Trainable encoders over word vectors: Skip-Thoughts, InferSent, Universal Sentence Encoder, QuickThoughts."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from contrastive_st.errors import InputError
from contrastive_st.losses import LOCAL, SkipThoughtsLoss, TargetsLoss, default_gather
from contrastive_st.losses.functional import at_least_float32
from contrastive_st.losses.targets import neighbors
from contrastive_st.models.architectures.infersent import InferSentModel
from contrastive_st.models.architectures.quickthoughts import (
    PackedGRU,
    Packing,
    QuickThoughtsModel,
)
from contrastive_st.models.architectures.skipthoughts import SkipThoughtsConfig, SkipThoughtsModel
from contrastive_st.models.architectures.universal import UniversalModel
from contrastive_st.models.modeling import ContrastiveOutput, OwnArchitecture, text_hashes
from contrastive_st.models.saving import register

# --- Skip-Thoughts: an encoder trained to generate neighbouring sentences. The generative baseline of QuickThoughts.

END = 0  # the id of padding, which is not a word: the decoders start from it and end with it


@register
class SkipThoughts(OwnArchitecture, SkipThoughtsModel):
    r"""Skip-Thoughts (Kiros et al. 2015): two decoders generate the neighbours of a sentence from its vector.

        loss = - mean over the words w_t of all neighbours, end tokens included, of log P(w_t | w_1 .. w_{t-1}, vector)

    The decoders are GRUs that read the previous word (teacher forcing) and the vector at every step, as the conditional
    gates of the paper do, and use the encoder's word vectors. Both share an adaptive softmax with three clusters (Grave
    et al. 2017, https://arxiv.org/abs/1609.04309), which is exact and fast if ids are sorted by descending frequency,
    as those of word tokenizers are. `drop_heads` removes the decoders before the encoder is saved.

    A batch has consecutive sentences of a corpus (`ContextWindowCollator`), so the neighbours to generate are in it.

    Args:
        config: dimensions, encoder, readout.
        settings: `with_head=False` for an encoder without decoders.

    Example:
        >>> model = SkipThoughts(SkipThoughtsConfig(vocab_size=50, embedding_size=4, hidden_size=8))
        >>> ids = torch.tensor([[2, 7, 8], [9, 5, 0], [4, 0, 0]])  # three sentences, one after the other
        >>> places = torch.tensor([[0, 0], [0, 1], [0, 2]])
        >>> model(ids[:, None], attention_mask=(ids > 0)[:, None].long(), targets=places).loss.shape
        torch.Size([])
        >>> model.eval()(ids).pooler_output.shape
        torch.Size([3, 8])
    """

    citation = SkipThoughtsLoss.citation
    code_class = SkipThoughtsModel
    default_settings: ClassVar[dict[str, Any]] = {"loss": "skip_thoughts"}
    suitable_losses = ("skip_thoughts",)

    def add_head(self) -> None:
        """Create the decoders."""
        if self.settings.with_head:
            config: Any = self.config
            self.loss_head = Decoders(config)
            self.loss_head.apply(self._init_weights)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        targets: Tensor | None = None,
        return_loss: bool = True,
    ) -> BaseModelOutputWithPooling | ContrastiveOutput:
        """`input_ids [N, L]` gives embeddings in `pooler_output [N, h]`; `[B, 1, L]` the loss of consecutive sentences.

        Args:
            input_ids: word ids.
            attention_mask: not zero on real words.
            targets: `[B, 2]`: the document of each sentence, and its position in it.
            return_loss: as for `ForCL.forward`.
        """
        if input_ids.dim() == 2:
            return self._encode(**self._rows(input_ids, attention_mask))
        if targets is None or targets.shape != (len(input_ids), 2) or input_ids.shape[1] != 1:
            raise InputError(
                "Skip-Thoughts needs single sentences in order and their places; use ContextWindowCollator"
            )
        if not self.settings.with_head:
            raise InputError("this encoder was saved without its decoders, so it cannot be trained; give a new model")
        rows = self._rows(input_ids, attention_mask)
        embeddings: Any = self._encode(**rows).pooler_output
        vectors = self.word_embeddings.weight
        total, count = self.loss_head(vectors, embeddings, rows["input_ids"], rows["attention_mask"], targets)
        gather = default_gather() if self.training else LOCAL
        if not gather.total(count):
            raise InputError("no sentence of this batch has a neighbour in it; give documents of several sentences")
        hashes = text_hashes(input_ids, attention_mask)
        return ContrastiveOutput(loss=gather.mean(total, count), views=embeddings[:, None], text_hashes=hashes)

    def _encode(self, attention_mask: Tensor, **rows: Any) -> BaseModelOutputWithPooling:
        return super()._encode(attention_mask, states=not self.training, **rows)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> Any:
        """As `PreTrainedModel.resize_token_embeddings`; the decoders get a new softmax over the words."""
        resized = super().resize_token_embeddings(*args, **kwargs)
        if self.settings.with_head:
            config: Any = self.config
            self.loss_head.words = Decoders(config).words.to(self.device)
        return resized


class Decoders(nn.Module):
    """Generates the sentence before and the sentence after, word by word."""

    def __init__(self, config: SkipThoughtsConfig) -> None:
        super().__init__()
        dim = config.embedding_size + config.hidden_size
        self.before, self.after = PackedGRU(dim, config.hidden_size), PackedGRU(dim, config.hidden_size)
        often = sorted({max(config.vocab_size // 10, 1), max(config.vocab_size // 2, 1)})
        self.words = nn.AdaptiveLogSoftmaxWithLoss(config.hidden_size, config.vocab_size, often)

    def forward(
        self, vectors: Tensor, embeddings: Tensor, input_ids: Tensor, attention_mask: Tensor, places: Tensor
    ) -> tuple[Tensor, int]:
        """The sum of the losses of all words to generate, and their number.

        Args:
            vectors: word vectors `[V, e]`.
            embeddings: sentence vectors `[B, h]`.
            input_ids: `[B, L]`, padded on the right.
            attention_mask: `[B, L]`, 1 on words.
            places: `[B, 2]`: document and position.
        """
        states, words = [], []
        end = torch.full_like(input_ids[:, :1], END)
        ids, mask = input_ids * attention_mask, torch.cat([end + 1, attention_mask], 1)
        read, write = torch.cat([end, ids], 1), torch.cat([ids, end], 1)  # the previous word, and the word
        for decoder, (readers, written) in zip((self.before, self.after), neighbors(places), strict=True):
            packing = Packing(mask[written])
            own = embeddings[readers][packing.source // mask.shape[1]]
            before = functional.embedding(read[written].flatten()[packing.source], vectors, padding_idx=END)
            states.append(decoder(torch.cat([before, own], 1), packing))
            words.append(write[written].flatten()[packing.source])
        found, wanted = at_least_float32(torch.cat(states)), torch.cat(words)
        with torch.autocast(found.device.type, enabled=False):
            # without neighbours in the batch the loss is zero, but depends on every parameter, as DDP expects
            loss = -self.words(found, wanted).output.sum() if len(wanted) else found.sum() + _nothing_of(self)
        return loss, len(wanted)


def _nothing_of(module: nn.Module) -> Tensor:
    return sum((p.sum() * 0 for p in module.parameters()), torch.zeros(()))


# --- Encoders over word vectors trained on labelled pairs (InferSent) and on several tasks (USE).


@register
class InferSentBiLSTM(OwnArchitecture, InferSentModel):
    """InferSent (Conneau et al. 2017): a max-pooled BiLSTM, by default trained to classify pairs.

    The classifier reads `[u; v; |u - v|; u * v]`; `drop_heads` removes it before the encoder is saved.

    Args:
        config: dimensions and word vectors.
        settings: of the loss, such as `head_hidden=512`; see `contrastive_st.models.configuration`.

    Example:
        >>> import torch
        >>> from contrastive_st import InferSentConfig
        >>> model = InferSentBiLSTM(InferSentConfig(vocab_size=50, embedding_size=4, hidden_size=8))
        >>> ids = torch.tensor([[[2, 7], [8, 9]], [[5, 6], [4, 3]]])  # two pairs
        >>> model(ids, targets=torch.tensor([0, 2])).loss.shape
        torch.Size([])
    """

    citation = r"""
@inproceedings{conneau2017supervised,
  title = {Supervised Learning of Universal Sentence Representations from Natural Language Inference Data},
  author = {Conneau, Alexis and Kiela, Douwe and Schwenk, Holger and Barrault, Lo{\"i}c and Bordes, Antoine},
  booktitle = {Empirical Methods in Natural Language Processing},
  year = {2017}
}
"""
    code_class = InferSentModel
    takes_lengths = True
    default_settings: ClassVar[dict[str, Any]] = {"loss": "softmax", "features": ("u", "v", "abs(u-v)", "u*v")}


@register
class UniversalSentenceEncoder(OwnArchitecture, UniversalModel):
    """Universal Sentence Encoder (Cer et al. 2018): one encoder trained on several tasks, each with its own head.

    Args:
        config: `UniversalConfig(encoder="dan")`, the deep averaging network, or `encoder="transformer"`.
        settings: of the loss, such as `loss="multi_task", tasks={...}`.

    Example:
        >>> import torch
        >>> from contrastive_st import UniversalConfig
        >>> from contrastive_st.tokens import name_number
        >>> config = UniversalConfig(vocab_size=50, embedding_size=4, hidden_size=8, bigram_buckets=30)
        >>> tasks = {"answers": {"loss": "info_nce"}, "nli": {"loss": "softmax"}}
        >>> model = UniversalSentenceEncoder(config, loss="multi_task", tasks=tasks)
        >>> ids = torch.tensor([[[2, 7], [8, 9]], [[5, 6], [4, 3]]])  # two pairs
        >>> nli = name_number("nli")
        >>> model(ids, targets=torch.tensor([[nli, 0], [nli, 2]])).loss.shape  # labels 0 and 2
        torch.Size([])
    """

    citation = r"""
@misc{cer2018universal,
  title = {Universal Sentence Encoder},
  author = {Cer, Daniel and Yang, Yinfei and Kong, Sheng-yi and Hua, Nan and Limtiaco, Nicole and St. John, Rhomni
    and Constant, Noah and Guajardo-C{\'e}spedes, Mario and Yuan, Steve and Tar, Chris and Sung, Yun-Hsuan and
    Strope, Brian and Kurzweil, Ray},
  note = {arXiv:1803.11175},
  year = {2018}
}
"""
    code_class = UniversalModel


@register
class QuickThoughtsGRU(OwnArchitecture, QuickThoughtsModel):
    """QuickThoughts (Logeswaran and Lee 2018): the f vector of a sentence must find the g vectors of its neighbours.

    The sentence embedding is `[f; g]`; both towers are GRUs by default. With one tower it is f, compared with itself.

    Args:
        config: dimensions, encoder, readout, word vectors.
        settings: of the loss, such as `targets="tfidf_bin"`; see `contrastive_st.models.configuration`.

    Example:
        >>> import torch
        >>> from contrastive_st import QuickThoughtsConfig
        >>> config = QuickThoughtsConfig(vocab_size=50, embedding_size=4, hidden_size=8)
        >>> model = QuickThoughtsGRU(config, targets="next")
        >>> ids = torch.tensor([[2, 7, 8], [9, 5, 0], [4, 0, 0]])  # three sentences, one after the other
        >>> places = torch.tensor([[0, 0], [0, 1], [0, 2]])
        >>> model(ids[:, None], attention_mask=(ids > 0)[:, None].long(), targets=places).loss.shape
        torch.Size([])
        >>> model.eval()(ids).pooler_output.shape
        torch.Size([3, 16])
    """

    citation = TargetsLoss.citation
    code_class = QuickThoughtsModel
    takes_lengths = True
    default_settings: ClassVar[dict[str, Any]] = {"loss": "targets", "targets": "window"}
    suitable_losses = ("targets", "relational_distillation", "reconstruction")

    def split_views(self, embeddings: Tensor) -> Tensor:
        """Split embeddings `[B, 1, 2h]` into the vectors of the two towers, `[B, 2, h]`, or of the one."""
        towers: Tensor = embeddings.unflatten(-1, (self.config.towers, -1))
        return towers.flatten(1, 2)

    def _encode(self, attention_mask: Tensor, **rows: Any) -> BaseModelOutputWithPooling:
        return super()._encode(attention_mask, states=not self.training, **rows)
