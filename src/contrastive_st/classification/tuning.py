"""Train an encoder and the head of a classifier on a few labelled texts: `ContrastiveTrainer` on pairs of the classes.

Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts" (SetFit), https://arxiv.org/abs/2209.11055.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, PrinterCallback

from contrastive_st.classification.class_pairs import PairRows, class_pairs
from contrastive_st.classification.heads import LinearHead
from contrastive_st.classification.labels import Labels
from contrastive_st.classification.settings import TuningSettings
from contrastive_st.data import LabelledPairCollator
from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.losses import CosineSimilarityLoss, MatryoshkaLoss
from contrastive_st.losses.functional import normalize
from contrastive_st.models.base import ForCL
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.graph import GraphVectors
from contrastive_st.models.protocol import Encoder
from contrastive_st.models.wrapped import contrastive
from contrastive_st.random_state import preserved_random_state
from contrastive_st.tokens import prompt_length
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.trainer import ContrastiveTrainer

logger = logging.getLogger(__name__)

#: Settings of the differentiable head: those of setfit
_HEAD_EPOCHS, _HEAD_BATCH, _HEAD_RATE, _ENCODER_RATE, _HEAD_DECAY = 16, 16, 1e-2, 1e-5, 0.01


@preserved_random_state()
def tune_on_pairs(
    encoder: Encoder, texts: Sequence[str], labels: Labels, settings: TuningSettings | None = None
) -> SentenceEncoder:
    """A copy of an encoder, trained so that texts of a class have a cosine near 1 and those of different ones near 0.

    Args:
        encoder: a `SentenceEncoder`.
        texts: N texts.
        labels: the class of each text `[N]`, or `[N, K]` of 0 and 1.
        settings: how pairs are drawn and trained on.

    Raises:
        InputError: the encoder cannot be trained, or all texts are of one class.
    """
    settings = settings or TuningSettings()
    tuned = _trainable(encoder)
    pairs, scores = class_pairs(labels, settings.sampling_strategy, settings.seed)
    steps = -(-len(pairs) // settings.batch_size) * settings.num_epochs
    steps = steps if settings.max_steps < 0 else settings.max_steps
    logger.info(f"training {encoder.name} on {len(pairs):,} pairs of {len(texts):,} texts, {steps:,.0f} steps")
    rows = _rows(tuned, texts, pairs, scores)
    of_first = MatryoshkaLoss(CosineSimilarityLoss(), (tuned.dimension,))  # of the dimensions that it gives
    model = contrastive(tuned.model, of_first if tuned.truncate_dim else CosineSimilarityLoss())
    _train(model, tuned.tokenizer, rows, settings)
    return tuned


@preserved_random_state()
def train_head(
    encoder: Encoder,
    texts: Sequence[str],
    labels: NDArray[np.int64],
    tune: bool,
    settings: TuningSettings,
    weights: NDArray[np.float64],
) -> tuple[Encoder, LinearHead]:
    """A linear layer trained by gradient on a cross-entropy, setfit's differentiable head; with the encoder if `tune`.

    Args:
        encoder: as for `tune_on_pairs`.
        texts: N texts.
        labels: class numbers `[N]`, or `[N, K]` of 0 and 1, for which each class has its cross-entropy.
        tune: also train the encoder, end to end, at a rate of 1e-5; that of the layer is 1e-2.
        settings: its seed and progress bar are used.
        weights: of the labels, shaped as they are.

    Returns:
        The encoder (a trained copy if `tune`, else the given one), and the layer.
    """
    tuned, many = _trainable(encoder), labels.ndim > 1
    torch.manual_seed(settings.seed)
    loss = LinearLoss(tuned.dimension, labels.shape[1] if many else int(labels.max()) + 1, many)
    targets = np.stack([labels, weights / weights.mean()], axis=1).astype(np.float32)
    rows = _rows(tuned, texts, np.arange(len(texts))[:, None], targets)
    before = tuned.model.settings.loss if isinstance(tuned.model, ForCL) else None
    model = contrastive(tuned.model, loss)
    head = {id(weight) for weight in model.head_parameters()}
    body = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in head]
    for weight in () if tune else body:
        weight.requires_grad_(False)  # of the copy
    groups = [{"params": model.head_parameters(), "lr": _HEAD_RATE}]
    groups += [{"params": body, "lr": _ENCODER_RATE}] if tune else []
    optimizer = torch.optim.AdamW(groups, weight_decay=_HEAD_DECAY)
    length = replace(settings, batch_size=_HEAD_BATCH, num_epochs=_HEAD_EPOCHS, max_steps=-1)
    _train(model, tuned.tokenizer, rows, length, optimizer)
    if before is not None:
        model.change_settings(loss=before)  # what is saved has no need of this one
    weights, bias = (x.detach().cpu().numpy().astype(np.float64) for x in (loss.linear.weight, loss.linear.bias))
    return tuned if tune else encoder, LinearHead(weights, bias, many)


class LinearLoss(nn.Module):
    """Cross-entropy of the class of a text, predicted by a linear layer over its unit vector.

    Args:
        dim: dimension of the vectors.
        classes: number of classes.
        multi_label: the classes of a text are predicted one by one.

    Example:
        >>> loss = LinearLoss(4, 2)
        >>> _ = [nn.init.zeros_(weight) for weight in loss.parameters()]
        >>> targets = torch.tensor([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])  # each with the weight 1
        >>> round(loss(torch.ones(3, 1, 4), targets).item(), 4)  # ln 2
        0.6931
    """

    def __init__(self, dim: int, classes: int, multi_label: bool = False) -> None:
        super().__init__()
        self.linear, self.multi_label = nn.Linear(dim, classes), multi_label

    def forward(self, views: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of views `[B, 1, d]` and targets with weights: `[B, 2]`, or `[B, 2, K]` of 0 and 1."""
        vectors = normalize(views[:, 0, : self.linear.in_features])  # of an encoder that gives the first dimensions
        logits, (labels, weights) = self.linear(vectors), targets.unbind(1)
        if self.multi_label:
            return functional.binary_cross_entropy_with_logits(logits, labels, weights)
        return (weights * functional.cross_entropy(logits, labels.long(), reduction="none")).mean()


def _trainable(encoder: Encoder) -> SentenceEncoder:
    """A copy of an encoder, whose weights can be trained without changing the given one."""
    folder = getattr(encoder, "folder", None)
    if not isinstance(encoder, SentenceEncoder) and folder is None:
        raise InputError(f"{encoder.name} is a function without weights to train; give a folder or a Hub name")
    copied = copy.copy(encoder if isinstance(encoder, SentenceEncoder) else SentenceEncoder(folder))
    if isinstance(copied.model, GraphVectors) or copied._rounded:
        raise InputError(f"{encoder.name} runs in {copied.precision}; training needs the float32 checkpoint in torch")
    copied.model, copied.folder, copied._fingerprint = copy.deepcopy(copied.model), None, None
    return copied


def _rows(encoder: SentenceEncoder, texts: Sequence[str], pairs: NDArray[np.int64], targets: Labels) -> PairRows:
    """Rows of the texts, as the encoder reads them."""
    prompt = encoder.prompt_text()
    includes_prompt = not prompt or encoder.checkpoint.include_prompt
    before = 0 if includes_prompt else prompt_length(encoder.tokenizer, prompt, encoder.max_length or 1 << 30)
    return PairRows(encoder.token_rows(texts, prompt), pairs, targets, before)


def _train(
    model: ForCL, tokenizer: PreTrainedTokenizerBase, rows: PairRows, settings: TuningSettings,
    optimizer: torch.optim.Optimizer | None = None,
) -> None:  # fmt: skip
    """Train a contrastive model in place, with its own loss."""
    options: JsonObject = {
        "num_train_epochs": settings.num_epochs, "max_steps": settings.max_steps, "warmup_steps": 0.1,
        "learning_rate": settings.learning_rate, "per_device_train_batch_size": settings.batch_size,
        "seed": settings.seed, "disable_tqdm": not settings.show_progress_bar, "dataloader_drop_last": False,
        "save_strategy": "no", "logging_strategy": "no", "report_to": [],
    }  # fmt: skip
    # what the Trainer prints goes to stderr: stdout has the labels
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = ContrastiveTrainer(
            model=model, args=ContrastiveTrainingArguments(folder, **options), train_dataset=rows,
            data_collator=LabelledPairCollator(tokenizer), optimizers=(optimizer, None),
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    vars(model).pop("forward", None)  # with autocast around it, in which accelerate would let it encode too
    model.drop_heads()
    model.eval()
