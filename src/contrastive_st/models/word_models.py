"""Trainable encoders over word vectors: Skip-Thoughts, InferSent, Universal Sentence Encoder, QuickThoughts."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.distributed import LOCAL
from contrastive_st.errors import InputError
from contrastive_st.losses import SkipThoughtsLoss, TargetsLoss, default_gather
from contrastive_st.losses.base import require
from contrastive_st.losses.words import neighbors
from contrastive_st.models.architectures.infersent import InferSentModel
from contrastive_st.models.architectures.quickthoughts import QuickThoughtsModel
from contrastive_st.models.architectures.skipthoughts import SkipThoughtsModel
from contrastive_st.models.architectures.universal import UniversalModel
from contrastive_st.models.base import OwnArchitecture
from contrastive_st.models.saving import register
from contrastive_st.models.words import Decoders, Inputs, Pairs, Rows, Words, row_index

# --- Skip-Thoughts: an encoder trained to generate neighbouring sentences. The generative baseline of QuickThoughts.


@register
class SkipThoughts(OwnArchitecture, SkipThoughtsModel):
    r"""Skip-Thoughts (Kiros et al. 2015): two decoders generate the neighbours of a sentence from its vector.

        loss = - mean over the words w_t of all neighbours, end tokens included, of log P(w_t | w_1 .. w_{t-1}, vector)

    The decoders (`Decoders`) use the encoder's word vectors. `drop_heads` removes them before the encoder is saved.

    A batch has consecutive sentences of a corpus (`ContextWindowCollator`), so the neighbours to generate are in it.

    Args:
        config: dimensions, encoder, readout.
        settings: `with_head=False` for an encoder without decoders.

    Example:
        >>> from contrastive_st import SkipThoughtsConfig
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
    default_settings: ClassVar[dict[str, object]] = {"loss": "skip_thoughts"}
    suitable_losses = ("skip_thoughts",)

    def add_head(self) -> None:
        """Create the decoders."""
        if not self.settings.with_head:
            return
        table = self.get_input_embeddings()
        config = self.config
        self.loss_head = Decoders(
            ("before", "after"), table.embedding_dim, self.embedding_dim, config.hidden_size, config.vocab_size
        )
        self.loss_head.apply(self._init_weights)

    def words_of(self, batch: Inputs) -> Words | None:
        """The words of the sentences to generate, which are sentences of the batch of all processes."""
        ids, targets = batch["input_ids"], batch.get("targets")
        if targets is None or targets.shape != (len(ids), 2) or ids.shape[1] != 1:
            raise InputError(
                f"{self.settings.loss.words} needs single sentences in order and their places; use "
                "ContextWindowCollator"
            )
        if not self.settings.with_head:
            raise InputError("this encoder was saved without its decoders, so it cannot be trained; give a new model")
        gather = default_gather() if self.training else LOCAL
        local = self._rows(ids, batch.get("attention_mask"))
        wider = gather.widest(local["input_ids"].shape[1]) - local["input_ids"].shape[1]
        rows = {name: gather(functional.pad(x, (0, wider)).contiguous()) for name, x in local.items()}
        pairs: Pairs = neighbors(targets, gather(targets))  # the one before each sentence, and the one after it
        lengths = rows["attention_mask"].sum(1) + 1
        count = int(sum(lengths[written].sum() for _, written in pairs))
        require(gather.sum(torch.tensor(count, device=ids.device)) > 0, lambda: _NO_NEIGHBORS, skips=True)

        def sum_of(vectors: Tensor, at: Rows) -> Tensor:
            result = pairs if at is None else [_of_rows(pair, row_index(at, ids.device), len(ids)) for pair in pairs]
            total: Tensor = self.loss_head(self.get_input_embeddings().weight, vectors, rows, result)
            return total

        return Words(self.settings.loss.words_weight, count, sum_of)

    def resize_token_embeddings(self, *args: object, **kwargs: object) -> nn.Embedding:
        """As `PreTrainedModel.resize_token_embeddings`; the decoders get a new softmax over the words."""
        resized = super().resize_token_embeddings(*args, **kwargs)  # type: ignore[arg-type]
        if isinstance(head := getattr(self, "loss_head", None), Decoders):
            head.resize(self.config.vocab_size)
            head.to(self.device)
        return resized

    def _encode(self, attention_mask: Tensor, **rows: object) -> BaseModelOutputWithPooling:
        return super()._encode(attention_mask, states=not self.training, **rows)


def _of_rows(pair: tuple[Tensor, Tensor], rows: Tensor | slice, count: int) -> tuple[Tensor, Tensor]:
    """The pairs whose vectors are those of some of `count` rows, with their places among these."""
    readers, written = pair
    numbers = torch.arange(count, device=readers.device)
    places = torch.full_like(numbers, -1).index_copy(0, numbers[rows], numbers[: len(numbers[rows])])[readers]
    return places[places >= 0], written[places >= 0]


_NO_NEIGHBORS = "no sentence of this batch has a neighbour in it; give documents of several sentences"


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

    citation = "conneau2017supervised"
    code_class = InferSentModel
    takes_lengths = True
    default_settings: ClassVar[dict[str, object]] = {"loss": "softmax", "features": ("u", "v", "abs(u-v)", "u*v")}


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

    citation = "cer2018universal"
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
    default_settings: ClassVar[dict[str, object]] = {"loss": "targets", "targets": "window"}
    suitable_losses = ("targets", "relational_distillation", "reconstruction")

    def _encode(self, attention_mask: Tensor, **rows: object) -> BaseModelOutputWithPooling:
        return super()._encode(attention_mask, states=not self.training, **rows)
