"""A queue of the key embeddings of former batches as further candidates (He et al. 2020, MoCo, https://arxiv.org/abs/1911.05722).

    anchors    encoded by the model, with gradient
    keys       the embeddings of positives and hard negatives, encoded by the model's moving average, without gradient
    candidates the keys of this batch, and the last K positives of earlier batches

The moving average changes slowly, so keys of earlier batches remain useful as negatives, and only their vectors are
kept in memory.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback

from contrastive_st.distributed import Gather
from contrastive_st.errors import InputError, about
from contrastive_st.losses.functional import normalize
from contrastive_st.losses.info_nce import Queue
from contrastive_st.models.base import ForCL
from contrastive_st.training.checkpoints import CheckpointTrainer
from contrastive_st.training.gradcache import Batch, Chunks, encode_chunks

FILE = "momentum_queue.safetensors"
#: The entries of a batch that the encoder needs: tensors `[B, V, L]`, and `lengths` `[B, V]`, known on the host
TOKEN_KEYS = ("input_ids", "attention_mask", "token_type_ids", "text_mask", "lengths")


class MomentumQueue:
    """The moving average of a model, and a queue of the last key embeddings that it computed.

    Args:
        model: the start of the moving average, which is copied.
        size: K, the number of key embeddings to keep; the queue fills up over the first batches.
        momentum: share of the moving average that is kept at each optimizer step.

    Example:
        >>> queue = MomentumQueue(nn.Linear(2, 2), size=3, momentum=0.5)
        >>> queue.add(torch.eye(2), torch.tensor([[1, 2], [3, 4]]))
        >>> queue.add(-torch.eye(2), torch.tensor([[5, 6], [7, 8]]))
        >>> queue.entries().text_hashes.tolist()  # the oldest is gone
        [[7, 8], [3, 4], [5, 6]]
    """

    def __init__(self, model: nn.Module, size: int, momentum: float = 0.999) -> None:
        self.encoder: Any = copy.deepcopy(model).requires_grad_(False)
        self.size, self.momentum = size, momentum
        self.seen = 0  # number of key embeddings added so far
        self.state: dict[str, Tensor] = {}

    def entries(self) -> Queue | None:
        """The entries of the queue, or None while it is empty."""
        filled = min(self.seen, self.size)
        held = (self.state[name][:filled] if name in self.state else None for name in ("vectors", "texts", "guides"))
        return Queue(*held) if filled else None  # type: ignore[arg-type]

    def add(self, key_embeddings: Tensor, text_hashes: Tensor, guide: Tensor | None = None) -> None:
        """Replace the oldest entries by key embeddings `[n, d]` with text hashes `[n, 2]`.

        For a guided loss, `guide` has the guide's unit vectors of the same texts, `[n, D]`.
        """
        if not len(key_embeddings):
            return
        new = {"vectors": key_embeddings, "texts": text_hashes, **({} if guide is None else {"guides": guide})}
        end = self.seen + len(key_embeddings)
        places = torch.arange(self.seen, end, device=key_embeddings.device)[-self.size :] % self.size
        for name, rows in new.items():
            held = self.state.get(name, rows.new_zeros(self.size, rows.shape[1]))
            # a new tensor, since the log or a backward pass may still use the one returned before
            self.state[name] = held.index_copy(0, places, rows[-self.size :])
        self.seen = end

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Update the moving average with the model's weights; buffers are copied."""
        for average, new in zip(self.encoder.parameters(), model.parameters(), strict=True):
            average.lerp_(new.to(average.dtype), 1 - self.momentum)
        for average, new in zip(self.encoder.buffers(), model.buffers(), strict=True):
            average.copy_(new)

    def save(self, folder: str | Path) -> None:
        """Write everything to one file, each weight once."""
        every = (*self.encoder.named_parameters(), *self.encoder.named_buffers())
        weights = {f"encoder.{name}": tensor for name, tensor in every}
        state = {name: tensor.contiguous() for name, tensor in {**weights, **self.state}.items()}
        state["seen"] = torch.tensor(self.seen)
        save_file(state, Path(folder, FILE))

    def load(self, folder: str | Path) -> None:
        """Restore the state that `save` wrote."""
        path = Path(folder, FILE)
        with about("the checkpoint of a run with --momentum_queue"):
            state = load_file(path)
        device = next(self.encoder.parameters()).device
        weights = {name.removeprefix("encoder."): state.pop(name) for name in list(state) if "encoder." in name}
        self.encoder.load_state_dict(weights, strict=False)
        if len(state.get("vectors", [])) not in (0, self.size):
            raise InputError(f"{path} has {len(state['vectors'])} key embeddings; resume with that --momentum_queue")
        self.seen = int(state.pop("seen"))
        self.state = {name: tensor.to(device) for name, tensor in state.items()}


class Keys(TrainerCallback):
    """The `MomentumQueue` of a run, which starts with it, follows its steps, and is saved in its checkpoints.

    Moving average and queue are the same on every process.

    Args:
        trainer: a `ContrastiveTrainer`.

    Attributes:
        queue: the queue, from the beginning of training on.

    Raises:
        InputError: the model or its loss cannot have a queue.
    """

    queue: MomentumQueue

    def __init__(self, trainer: CheckpointTrainer) -> None:
        self.trainer = trainer
        core = trainer.core
        if not core.settings.loss.takes_queue or type(core).split_views is not ForCL.split_views:
            raise InputError(
                "a momentum queue needs one encoder and the loss info_nce, not symmetric; leave out momentum_queue"
            )
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise InputError("momentum_queue copies whole weights, but FSDP and DeepSpeed shard them; use DDP")

    def on_train_begin(self, *args: object, **kwargs: object) -> None:
        """Create the queue with a copy of the model, or restore it from the checkpoint of a resumed run."""
        trainer = self.trainer
        self.queue = MomentumQueue(trainer.core, trainer.args.momentum_queue, trainer.args.momentum)
        if trainer.resumed_from is not None:
            self.queue.load(trainer.resumed_from)

    def on_optimizer_step(self, *args: object, **kwargs: object) -> None:
        """Let the moving average follow the model."""
        self.queue.follow(self.trainer.core)

    def embeddings(self, inputs: Batch) -> Tensor:
        """Encode all views of a batch except the first, `[B, V-1, d]`, with the moving average, with dropout."""
        rows = {name: inputs[name][:, 1:] for name in TOKEN_KEYS if name in inputs}
        encoder = self.queue.encoder.train()
        with torch.no_grad(), self.trainer.compute_loss_context_manager():
            return encode_chunks(rows, encoder.embed, Chunks.of(self.trainer))

    def add(self, views: Tensor, hashes: Tensor, targets: Tensor | None, gather: Gather) -> None:
        """Add the positives of all processes' batches to the queue; targets `[B, V, D]` are a guide's embeddings."""
        with torch.no_grad():
            guide = None if targets is None or targets.dim() != 3 else gather(normalize(targets[:, 1]))
            self.queue.add(gather(normalize(views[:, 1])), gather(hashes[:, :2].contiguous()), guide)

    def save(self, folder: Path) -> None:
        """Write the queue into a checkpoint."""
        self.queue.save(folder)
