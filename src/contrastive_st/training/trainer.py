"""`ContrastiveTrainer`: the Trainer of transformers, extended for contrastive training."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from accelerate.utils import DDPCommunicationHookType, DistributedDataParallelKwargs, DynamoBackend, parse_flag_from_env
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments
from transformers.integrations.integration_utils import TensorBoardCallback, default_logdir
from transformers.trainer_utils import EvalLoopOutput, TrainOutput
from transformers.training_args import OptimizerNames
from transformers.utils import is_liger_kernel_available

from contrastive_st.data.mixture import Mixture
from contrastive_st.distributed import add_gradients, mean_over_processes, world_size
from contrastive_st.errors import InputError, about, first_line
from contrastive_st.files.reading import JsonObject
from contrastive_st.former import with_former_names
from contrastive_st.losses import Loss, default_gather
from contrastive_st.losses.base import Check, deferred_checks
from contrastive_st.losses.geometry import effective_rank, uniformity
from contrastive_st.losses.info_nce import Queue
from contrastive_st.models.base import ContrastiveOutput, ForCL, text_hashes
from contrastive_st.models.wrapped import EncoderForCL, contrastive
from contrastive_st.random_state import preserved_random_state
from contrastive_st.speed.packing import has_flash_attention
from contrastive_st.speed.sharing import FreeCores
from contrastive_st.terminal import is_quiet
from contrastive_st.training.arguments import check_parts
from contrastive_st.training.callbacks import (
    HealthCallback,
    LogPrinter,
    LogProgress,
    OneEventFile,
    TaskLosses,
    Throughput,
    run_summary,
)
from contrastive_st.training.checkpoints import CheckpointTrainer, TrainingDiverged, last_good
from contrastive_st.training.evaluator import Evaluation
from contrastive_st.training.gradcache import Batch, Chunks, encoder_of, gradcache_step, sparse_look_ups
from contrastive_st.training.learning import Learning, check_trainable, check_views, fit_batch
from contrastive_st.training.momentum import TOKEN_KEYS, Keys, MomentumQueue
from contrastive_st.training.optimizers import sparse_norm
from contrastive_st.training.order import Order, leave_sigterm, share_last_batch
from contrastive_st.training.planning import PlanningCollator
from contrastive_st.training.publishing import Publisher
from contrastive_st.training.validation import Validation, check_validation, preserved_weights

# --- Values that the host needs for each step, and values that it reads later, so that it need not wait for the GPU.


class Unread(NamedTuple):
    """Values of a step that the host has not read yet: its loss `[]`, and the checks that the loss requires."""

    step: int
    rate: float
    loss: Tensor
    checks: list[Check]


_UNREAD = 100  # most steps before losses are read, even if nothing is logged


@dataclass
class OwnDDP(DistributedDataParallelKwargs):
    """DDP that sends only those rows of embeddings that have a gradient, between CPUs.

    (On GPUs the host would wait for the number of these rows.)
    """

    def to_kwargs(self) -> JsonObject:
        """The arguments of DDP, of which newer versions of torch have renamed one."""
        options: JsonObject = super().to_kwargs()
        if "broadcast_buffers" in options and "forward_sync_buffers" in signature(DistributedDataParallel).parameters:
            options["forward_sync_buffers"] = options.pop("broadcast_buffers")
        return options

    def register_comm_hook(self, model: DistributedDataParallel) -> None:
        """Choose how gradients are sent."""
        if dist.get_backend() == "gloo" and self.comm_hook == DDPCommunicationHookType.NO:
            layers = [module for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)]
            hook = lambda tables, bucket: add_gradients(tables, bucket)  # torch refuses annotations that are strings
            model.register_comm_hook({id(layer.weight) for layer in layers}, hook)
        else:
            super().register_comm_hook(model)


if TYPE_CHECKING:
    from optuna import Trial

logger = logging.getLogger(__name__)
_ROWS_MEASURED = 1024  # most anchors of a batch that are compared with each other


def _names_bf16(kind: object, error: BaseException | None, traceback: object) -> None:
    """Raise an error of types under autocast, which some families cannot run in, as a line with the way around it."""
    if isinstance(error, RuntimeError) and re.search("bfloat16|dtype", str(error), re.IGNORECASE):
        fix = "if the model cannot compute in bfloat16, give --bf16 false"
        raise InputError(f"torch: {first_line(error).rstrip('.')}; {fix}") from error


@with_former_names
class ContrastiveTrainer(CheckpointTrainer):
    """Trains a ForCL model, or any torch module that gives vectors `[N, d]` (see `EncoderForCL`).

    In addition to the loss, the log has the mean loss of each data set of a mixture (`loss_<name>`) and, for the last
    batch, the metrics of the loss (in-batch `accuracy`, the number of `candidates`, ...) and the `uniformity` (Wang and
    Isola 2020) and `effective_rank` of the anchors, each the mean over all processes. A warning is logged once if the
    embedding collapses or the loss stays at ln(candidates). A NaN loss stops the run. On SIGTERM a checkpoint is saved
    and the run ends.

    Validation rows (`eval_dataset`) have the same roles as the training rows; then there is an `eval_loss`, in
    evaluation mode and with the negatives of one process's batch, whatever the number of processes, and the metric of
    `validation_metrics`. In a mixture, each data set has its metrics (`eval_<name>_loss`, ...), and there are their
    means. Without dropout in evaluation, single texts cannot be validated: give rows of other roles and their
    `eval_collator`. The rows are shared over the processes, and all of them get the metrics of the whole set. The
    `compute_metrics` of transformers adds its metrics: it gets the `views` `[N, V, d]` and `text_hashes` `[N, V]` of
    all rows as predictions, and the targets as labels, as `predict` returns them.

    Args:
        evaluator: called with the model on one process, or on all if its attribute `distributed` is true; an evaluator
            of sentence-transformers, or with its signature, is called with an encoder instead. It returns named
            metrics, also nested, or one number (`evaluator`), which become `eval_...` metrics for the log,
            `metric_for_best_model` and `load_best_model_at_end`. May be a list.
        loss: a `Loss`, or any callable of views `[B, V, d]` that returns a scalar (see `CallableLoss`); by default that
            of the model, or `InfoNCE()` for a module that has none.
        eval_collator: collates validation rows of other roles than the training rows, such as scored pairs while
            training on texts: then there is the measure alone, and no `eval_loss`. By default `data_collator`.
        args, kwargs: as for `transformers.Trainer`.

    Attributes:
        metadata: entries of `training_metadata.json` that the trainer cannot know: `data` (name, licence) and
            `arguments`.
        order, validation, publisher, keys: the parts of the trainer; `keys` is None without a momentum queue.

    Raises:
        TrainingDiverged: the loss is NaN or infinite.
    """

    _made = False

    def __init__(
        self,
        *args: object,
        loss: object = None,
        evaluator: object = None,
        eval_collator: Callable[..., Batch] | None = None,
        **kwargs: object,
    ) -> None:
        parts = signature(Trainer.__init__).bind_partial(self, *args, **kwargs).arguments
        parts.pop("self")
        self._loss = loss
        if parts.get("model") is not None:
            parts["model"] = contrastive(parts["model"], loss)
        check_parts(parts)
        check_validation(parts["args"], parts.get("eval_dataset"), evaluator)
        if evaluator is not None and parts.get("eval_dataset") is None:
            parts["eval_dataset"] = {}  # the evaluator has its own data
        self.metadata: dict[str, dict[str, object]] = {}
        self.publisher = Publisher(self)
        with about("training arguments"):
            super().__init__(**parts)
        tokenizer = self.processing_class or getattr(self.data_collator, "tokenizer", None)
        self.evaluator, self.eval_collator, self.order = evaluator, eval_collator, Order(self)
        files = Path(str(self.args.output_dir), "eval")
        evaluation = None if evaluator is None else Evaluation(evaluator, tokenizer, files)  # type: ignore[arg-type]
        self.validation = Validation(self, evaluation, eval_collator)
        if self.args.per_device_eval_batch_size is None:  # whatever batches a search tries, or few rows leave
            self.args.per_device_eval_batch_size = self.args.per_device_train_batch_size
        self._adapt_accelerator()
        for fault in self._faults():
            raise InputError(fault)
        self.keys = Keys(self) if self.args.momentum_queue else None
        self._adapt_model(self.model)
        self._last_views: tuple[Tensor, Tensor | None, Tensor, Queue | None] | None = None
        self.reads_late = self.args.device.type != "cpu"  # on a CPU, losses are read at once
        self._unread: list[Unread] = []
        self._shares_of_run: dict[str, tuple[float, int]] = {}  # as given, and in steps
        self._searching, self._made = False, True
        self.throughput, self.task_losses = Throughput(), TaskLosses()
        self.learning, self.health = Learning(), HealthCallback()
        self.beside_model.append(self.publisher.write_metadata)
        if self.keys is not None:
            self.beside_state.append(self.keys.save)
            self.add_callback(self.keys)
        callbacks = (self.order, self.publisher, self.throughput, self.learning, self.health, FreeCores())
        for callback in callbacks:
            self.add_callback(callback)
        for kind, shown in ((PrinterCallback, LogPrinter), (ProgressCallback, LogProgress)):
            if any(type(callback) is kind for callback in self.callback_handler.callbacks):
                self.remove_callback(kind)
                if kind is ProgressCallback or not is_quiet():
                    self.add_callback(shown)
        if isinstance(board := self.pop_callback(TensorBoardCallback), TensorBoardCallback):
            one_file = OneEventFile(board.tb_writer)
            # what is logged before training goes there too, not into a folder `runs` where the script runs
            one_file.logging_dir = board.logging_dir or os.path.join(str(self.args.output_dir), default_logdir())
            self.add_callback(one_file)
        self.validation.prepare()

    # ------------------------------------------------------------------ each trial of a search makes them again

    def call_model_init(self, trial: Trial | JsonObject | None = None) -> ForCL:
        """As in transformers, with the loss of this trainer."""
        model: ForCL = contrastive(super().call_model_init(trial), self._loss)
        if self._made:
            self._adapt_model(model)
        return model

    def create_accelerator_and_postprocess(self) -> None:
        """As in transformers, with this trainer's DDP settings."""
        super().create_accelerator_and_postprocess()
        if self._made:
            self._adapt_accelerator()

    def _adapt_model(self, model: nn.Module) -> None:
        if isinstance(model, EncoderForCL):  # else transformers warns that its config has no such tokens
            names = ("pad_token_id", "bos_token_id", "eos_token_id")
            model.config.update({name: getattr(self.processing_class, name, None) for name in names})
        core = self.accelerator.unwrap_model(model)
        if self.args.save_dtype is not None:
            core.save_dtype, core.saved_for_float32 = getattr(torch, self.args.save_dtype), False
        if self.is_fsdp_enabled:  # every process must run the same number of forward passes
            core.length_bucketing = False
        if self.args.torch_compile:
            # Only the encoder, for any number of rows and any length; buckets are made outside of it. accelerate would
            # compile the whole model, and again for each new shape of a batch.
            plugin = self.accelerator.state.dynamo_plugin
            core.backbone.compile(backend=plugin.backend.value.lower(), mode=plugin.mode, dynamic=True)
            plugin.backend = DynamoBackend.NO
        half = (self.args.bf16 or self.args.fp16) and has_flash_attention(self.args.device)
        if self.args.unpadded is not None:
            core.unpadded = self.args.unpadded
        elif half and not (self.args.chunk_size or self.args.chunk_tokens) and getattr(core, "length_bucketing", False):
            core.unpadded = True  # by flash attention; in chunks of GradCache buckets are as fast (`benchmarks/gpu.py`)

    def _adapt_accelerator(self) -> None:
        self.order.read_for_itself()
        self.accelerator.dataloader_config.data_seed = self.args.order_seed
        if (handler := self.accelerator.ddp_handler) is not None:
            # one copy of the gradients less, and no broadcast of buffers that are constants, such as positions
            changing = handler.broadcast_buffers and any(x.is_floating_point() for x in self.model.buffers())
            options = {"gradient_as_bucket_view": True, "broadcast_buffers": changing}
            if isinstance(self.model, EncoderForCL):  # such as a pooler that nobody uses
                options["find_unused_parameters"] = True
            self.accelerator.ddp_handler = OwnDDP(**{**vars(handler), **options})
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        model = self.core
        sharded = getattr(model, "_no_split_modules", None)
        if plugin is not None and sharded and plugin.transformer_cls_names_to_wrap is None:
            # accelerate 1.15 shards the word embeddings themselves, and fails if a class around them is sharded first
            words, modules = model.get_input_embeddings(), list(model.modules())
            around = {type(module).__name__ for module in modules if any(part is words for part in module.modules())}
            plugin.transformer_cls_names_to_wrap = sorted(set(sharded) - around)

    def _faults(self) -> Iterator[str]:
        """Arguments that do not go with each other or with the model."""
        args, core = self.args, self.core
        settings: Any = getattr(core, "settings", None)
        if isinstance(core, EncoderForCL) and (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            yield "FSDP and DeepSpeed shard weights, and a wrapped encoder is saved whole; use DDP"
        if (args.fsdp or parse_flag_from_env("ACCELERATE_USE_FSDP")) and not self.is_fsdp_enabled:
            yield "FSDP is not possible here: accelerate shards weights over GPUs alone, in processes that it launches"
        if self.is_fsdp_enabled:
            if args.bf16_full_eval or args.fp16_full_eval:
                yield "bf16_full_eval and fp16_full_eval cast weights, and FSDP shards them; leave them out"
            if args.chunk_tokens:
                yield "FSDP needs equally many chunks on all processes; give chunk_size, not chunk_tokens"
            if core.head_parameters():
                yield (
                    f"FSDP shards the heads and decoders of a loss, such as those of {settings.loss.name}, which are "
                    "called outside of the model; use DDP"
                )
            count = args.world_size
            rows = [weight.shape[0] if weight.ndim else 1 for weight in core.parameters() if weight.requires_grad]
            if args.auto_find_batch_size and sum(n <= (count - 1) * math.ceil(n / count) for n in rows) > 1:
                yield (  # accelerate 1.15 tells shards by their address, and empty ones have none
                    "auto_find_batch_size starts again with weights that FSDP has sharded, and some have fewer "
                    f"rows than there are processes ({count}); give a per_device_train_batch_size that fits instead"
                )
        custom_loss = "compute_loss_func" if self.compute_loss_func is not None else "an overridden compute_loss"
        if custom_loss == "compute_loss_func" or type(self).compute_loss is not ContrastiveTrainer.compute_loss:
            for name in ("chunk_size", "chunk_tokens"):
                if getattr(args, name):
                    yield f"{name} does not call {custom_loss}; give the loss as loss=..., or leave out {name}"
        if args.unpadded and (args.torch_compile or not getattr(core, "can_pack", False)):
            kind = getattr(core.config, "_attn_implementation", None)
            why = "with torch_compile" if args.torch_compile else f"for {type(core).__name__} with {kind} attention"
            yield f"unpadded is not supported {why}; leave it out"
        if (strategy := args.train_sampling_strategy) in ("group_by_length", "batch_rebalance"):
            yield (
                f"train_sampling_strategy {strategy}: rows of similar length are encoded together anyway (length "
                "buckets), and negatives should not be chosen by length; leave it out"
            )
        if args.max_grad_norm and getattr(core, "sparse_gradient", False):
            yield "max_grad_norm clips dense gradients; give max_grad_norm=0, or leave out sparse_gradient"
        if isinstance(self.train_dataset, Mixture) and not args.dataloader_drop_last:
            yield "dataloader_drop_last=False: a Mixture has whole batches alone, each of one data set; leave it out"
        if args.batch_eval_metrics:
            yield "batch_eval_metrics: compute_metrics gets all rows at once; leave it out"
        if args.label_smoothing_factor:
            yield "label_smoothing_factor is not supported by these losses; leave it out"
        if args.use_liger_kernel and not is_liger_kernel_available():
            yield "use_liger_kernel: the package is not installed; pip install liger-kernel"
        for name in ("neftune_noise_alpha", "torch_compile"):
            if getattr(args, name) and not hasattr(core, "backbone"):
                yield f"{name} is for encoders of transformers, but this is a {type(core).__name__}; leave it out"
        for name in ("gradient_checkpointing", "activation_checkpointing"):  # the later name is not in all versions
            if getattr(args, name, False) and not core.supports_gradient_checkpointing:
                yield f"{name} is not supported for {type(core).__name__}; leave it out, or give --chunk_size"

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Trial | JsonObject | None = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """As `transformers.Trainer.train`, but a run ends well only if it trained.

        Raises:
            InputError: no step was taken, or one is not possible.
            TrainingDiverged: the loss is NaN or infinite.
        """
        if self.model is None:  # of the trial before, which a search has freed
            self.model = self.call_model_init(trial)
        self._last_views, self._unread, self._searching = None, [], trial is not None
        check_trainable(self.model)
        fit_batch(self.train_dataset, self.args)
        self._train_batch_size = self.args.train_batch_size
        self.validation.check_best_metric()
        if self.model_wrapped is self.model and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            # accelerate has prepared the model for an evaluation, and would not prepare it for training
            self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
            vars(self.model).pop("_is_accelerate_prepared", None)
        steps, _, metrics = super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
        if not (self.finished_before or self.sigterm.stopped):
            self.learning.check(self.state)
        self.validation.report_best()
        return TrainOutput(steps, metrics["train_loss"], metrics)

    def create_optimizer(self, model: nn.Module | None = None) -> Optimizer:
        """As in transformers; errors name the options."""
        with about(f"optim {OptimizerNames(self.args.optim).value}, optim_args {self.args.optim_args}"):
            return super().create_optimizer(model)

    def _get_grad_norm(self, model: nn.Module, grad_norm: float | None = None) -> Tensor | float:
        grad_norm = sparse_norm(model.parameters()) if grad_norm is None else grad_norm
        norm: Tensor | float = super()._get_grad_norm(model, grad_norm)
        return norm

    def _remember(self, views: Tensor, targets: Tensor | None, hashes: Tensor, queue: Queue | None) -> None:
        if self._last_views is None:
            loss_fn = self.core.loss_fn
            task = None if targets is None else loss_fn.task_of(targets)
            if len(views) and (targets is None or task is not None):  # scored pairs may be of equal texts
                check_views(views, hashes)
            anchors, processes = default_gather().total(len(views)), world_size()
            words = loss_fn.of_task(task).describe(anchors, views.shape[1])
            words += f" and the last {self.args.momentum_queue} positives" if self.queue else ""
            logger.info(f"{words}, from {processes} process{'es' if processes > 1 else ''}")
        targets = None if targets is None else targets[: len(views)]  # none of a batch that does not count
        self._last_views = views, targets, hashes, queue
        if self.keys is not None and self.queue is not None:
            self.keys.add(views, hashes, targets, default_gather())

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, ContrastiveOutput]:
        """As in transformers, with the keys of the momentum queue if there is one."""
        if not getattr(self.accelerator.unwrap_model(model), "takes_lengths", False):
            inputs = {name: value for name, value in inputs.items() if name != "lengths"}
        if model.training and self.keys is not None and self.queue is not None:
            inputs = {**inputs, "key_embeddings": self.keys.embeddings(inputs), "queue": self.queue.entries()}
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        if model.training:
            views, hashes = outputs["views"].detach(), outputs["text_hashes"]
            self._remember(views, inputs.get("targets"), hashes, inputs.get("queue"))
        return (loss, outputs) if return_outputs else loss

    def compute_loss_context_manager(self) -> contextlib.ExitStack[bool | None]:
        """As in transformers; an error of autocast names the option that does without it."""
        stack = super().compute_loss_context_manager()
        if self.args.bf16:
            stack.push(_names_bf16)
        return stack

    def training_step(self, model: nn.Module, inputs: Batch, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One forward and backward pass, in chunks if `chunk_size` or `chunk_tokens` is set.

        Returns:
            The loss `[]`, detached.
        """
        core, chunks = self.accelerator.unwrap_model(model), Chunks.of(self)
        if self._last_views is None:
            logger.info(run_summary(self, inputs))
        self.throughput.count(inputs, core, chunks)
        step = self._gradcache_step if chunks.size or chunks.tokens else super().training_step
        with deferred_checks() as checks:
            loss = step(model, inputs, num_items_in_batch)
        if not inputs.get("counts", True):
            checks.clear()
        self.publisher.clock.texts += inputs["input_ids"].shape[:-1].numel() * self.args.world_size
        self._unread.append(Unread(self.state.global_step + 1, self._get_learning_rate(), loss.detach(), checks))
        if not self.reads_late or len(self._unread) >= _UNREAD:
            self.read_losses()
        task = inputs["task"] if "task" in inputs else core.loss_fn.task_of(inputs.get("targets"))
        self.task_losses.count(task, loss.detach() * self.current_gradient_accumulation_steps)
        return loss

    def read_losses(self) -> None:
        """Wait for the steps so far and check their losses; called before logs, evaluations and checkpoints.

        Raises:
            InputError: a check of the loss of a step failed.
            TrainingDiverged: a loss is NaN or infinite.
        """
        unread, self._unread = self._unread, []
        fine = [x for entry in unread for x in (*(check.fine for check in entry.checks), entry.loss.isfinite())]
        sound = iter(torch.stack(fine).tolist() if fine else [])
        for step, rate, loss, checks in unread:
            failed = [check for check in checks if not next(sound)]
            if wrong := next((check for check in failed if not check.skips), None):
                raise InputError(wrong.words())
            empty = bool(failed) and len(failed) == sum(check.skips for check in checks)
            self.learning.count(step, failed[0].words() if empty else None)
            if not next(sound):
                last = last_good(str(self.args.output_dir))
                raise TrainingDiverged(
                    f"the loss is {loss.item()} at step {step} (learning rate {rate:.3g}); lower the learning rate or "
                    f"raise the temperature. Last good checkpoint: {last}"
                )

    def _save_checkpoint(self, model: nn.Module, trial: Trial | JsonObject | None) -> None:
        self.read_losses()
        if not self.state.global_step:  # transformers saves at the end of an epoch without a batch
            self.learning.check(self.state)
        if self.state.global_step >= self.state.max_steps:
            self.learning.check_batches()
        if not self.learning.had_nothing():
            super()._save_checkpoint(model, trial)

    @property
    def queue(self) -> MomentumQueue | None:
        """The momentum queue; None without one, or before training."""
        return getattr(self.keys, "queue", None)

    def get_train_dataloader(self) -> DataLoader[object]:
        """As in `transformers.Trainer`, with the values of `PlanningCollator` in the batches."""
        if self._searching:  # each trial has its arguments
            fit_batch(self.train_dataset, self.args)
            self._train_batch_size = self.args.train_batch_size
        collator, reading = self.data_collator, self.accelerator.dataloader_config
        streamed = isinstance(self.train_dataset, IterableDataset) and reading.dispatch_batches is None
        cut = reading.dispatch_batches or reading.split_batches or streamed  # by accelerate, which can only cut tensors
        if not cut:
            config = getattr(self.core, "config", None)
            vocabulary = getattr(config and config.get_text_config(), "vocab_size", None)
            loss = getattr(getattr(self.core, "settings", None), "loss", Loss())
            self.data_collator = PlanningCollator(collator, loss, vocabulary)
        try:
            ordered = self.order.loader(self._train_batch_size)
            loader = super().get_train_dataloader() if ordered is None else leave_sigterm(ordered)
            # chunks of sharded weights must be equally many on all processes, so there each needs as many rows
            return loader if self.is_fsdp_enabled and self.args.chunk_size else share_last_batch(loader)
        finally:
            self.data_collator = collator

    def _gradcache_step(
        self, model: nn.Module, inputs: Batch, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        model.train()
        inputs = self._prepare_inputs(inputs)
        core, scale = self.accelerator.unwrap_model(model), 1 / self.current_gradient_accumulation_steps
        rows = {name: inputs[name] for name in TOKEN_KEYS if name in inputs}
        targets, named = inputs.get("targets"), {"task": inputs["task"]} if "task" in inputs else {}
        hashes = text_hashes(inputs["input_ids"], inputs.get("attention_mask"), inputs.get("text_mask"))
        if not (counts := inputs.get("counts", True)):
            hashes, targets = hashes[:0], None if targets is None else targets[:0]
        key_embeddings, queue = None, None
        if self.keys is not None and self.queue is not None:
            key_embeddings, queue = self.keys.embeddings(inputs), self.queue.entries()
            rows = {name: x[:, :1] for name, x in rows.items()}

        def complete(embeddings: Tensor) -> Tensor:
            views: Tensor = core.split_views(embeddings)
            views = views if key_embeddings is None else torch.cat([views, key_embeddings.to(views.dtype)], 1)
            return views[: len(hashes)]

        words, per_row = core.words_of(inputs), 1 if key_embeddings is None else inputs["input_ids"].shape[1]
        parts = None if words is None else words.parts(default_gather(), counts)

        def words_loss(embeddings: Tensor, rows: NDArray[np.int64]) -> Tensor:
            every = (rows[:, None] * per_row + np.arange(per_row)).reshape(-1)  # with a queue, one row is encoded
            with self.compute_loss_context_manager():
                assert parts is not None
                loss: Tensor = parts(embeddings, every) * scale
            return loss

        @contextlib.contextmanager
        def no_sync() -> Iterator[None]:  # in a chunk that is not the last one of a step
            with contextlib.ExitStack() as stack:
                stack.enter_context(self.accelerator.no_sync(model))
                if not (self.is_fsdp_enabled or self.args.torch_compile):  # in parts, or compiled for dense gradients
                    stack.enter_context(sparse_look_ups(core))
                yield

        loss, views = gradcache_step(
            rows, encoder_of(self, model),
            loss_fn=lambda views: core.compute_loss(complete(views), targets, hashes, queue, **named) * scale,
            backward=self.accelerator.backward, no_sync=no_sync, chunks=Chunks.of(self),
            parameters=core.head_parameters(), words=None if words is None else words_loss,
        )  # fmt: skip
        self._remember(complete(views), targets, hashes, queue)
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As in transformers, with the metrics of the loss and of the embeddings."""
        self.read_losses()
        if "loss" in logs and self._last_views is not None:
            means = self.task_losses.metrics(lambda mean: self.accelerator.reduce(mean, "mean"))
            (views, targets, hashes, queue), loss_fn = self._last_views, self.core.loss_fn
            queued = {} if queue is None else {"queue": queue}
            with torch.no_grad():
                result = loss_fn.metrics(views, targets, text_hashes=hashes, gather=default_gather(), **queued)
                self.health.chances, anchors = loss_fn.chances(result), views[:_ROWS_MEASURED, 0]
                result |= {"uniformity": uniformity(anchors).item(), "effective_rank": effective_rank(anchors).item()}
            result = result if len(views) else {}  # else this process had no row of the batch
            logs = logs | means | mean_over_processes(result) | self.throughput.metrics(world_size())
        if "train_loss" in logs and not self.finished_before:
            # transformers adds the steps since the last log for this process alone; the result of `train` has it too
            logs["train_loss"] = mean_over_processes({"": logs["train_loss"]})[""]
            logger.info(f"trained to step {self.state.global_step}; mean loss {logs['train_loss']:.4f}")
        super().log(logs, start_time)

    def set_initial_training_values(self, args: TrainingArguments, dataloader: DataLoader[object]) -> tuple[Any, ...]:
        """As in transformers; shares of the run (`eval_steps=0.1`) become steps, as a checkpoint records them."""
        result = super().set_initial_training_values(args, dataloader)
        for name in ("logging_steps", "eval_steps", "save_steps"):
            (share, steps), now = self._shares_of_run.get(name, (0, None)), getattr(args, name)
            share = share if now == steps else now or 0  # another run of a search has the same share
            if 0 < share < 1:
                setattr(args, name, steps := math.ceil(result[-1] * share))
                self._shares_of_run[name] = share, steps
        return result

    # ------------------------------------------------------------------ validation

    def get_eval_dataloader(self, eval_dataset: object = None) -> DataLoader[object]:
        """The batches of this process."""
        every: Any = self.eval_dataset
        data = every if eval_dataset is None else every[eval_dataset] if isinstance(eval_dataset, str) else eval_dataset
        return super().get_eval_dataloader() if data is None else self.validation.loader(data)

    def get_test_dataloader(self, test_dataset: object) -> DataLoader[object]:
        """The batches of this process, as in validation: all rows, of which the metric is not computed."""
        return self.validation.loader(test_dataset, measured=False)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Loss and measure of the validation rows, and the metrics of the evaluator, once for several sets of rows."""
        metrics, data, evaluation = dict[str, float](), eval_dataset or self.eval_dataset, self.validation.evaluation
        apart = evaluation is not None and (not data or isinstance(data, dict))  # from the metrics of any rows
        if data or not apart:
            self.validation.evaluation = None if apart else evaluation
            try:
                metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
            finally:
                self.validation.evaluation = evaluation
        if apart:
            of_evaluator = self.validation.evaluator_metrics(metric_key_prefix)
            self.log(dict(of_evaluator))
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, of_evaluator)
            metrics |= of_evaluator
        if eval_dataset is None and metric_key_prefix == "eval":
            self.validation.evaluated = frozenset(metrics)
        return metrics

    def evaluation_loop(
        self,
        dataloader: DataLoader[object],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """As in transformers, without a trace in weights and random state, and with the metrics of `validation`."""
        validation, self.gather_function = self.validation, self.validation.gather
        guard = contextlib.nullcontext() if self.is_in_train else preserved_weights(self.model)  # then they may be cast
        with guard, preserved_random_state(), torch.no_grad():  # a loader and a masking collator draw random numbers
            output = super().evaluation_loop(
                dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
            )
            result, metrics = validation.metrics(), output.metrics or {}
        if "loss" in self.args.include_for_metrics and "loss" in result:  # transformers has that of each batch
            metrics[f"{metric_key_prefix}_loss"] = result["loss"]
        for name, value in result.items():  # what `compute_metrics` calls the same stays
            metrics.setdefault(f"{metric_key_prefix}_{name}", value)
        metrics.update(validation.evaluator_metrics(metric_key_prefix))
        metrics.pop(f"{metric_key_prefix}_model_preparation_time", None)
        return output._replace(metrics=metrics)

    def prediction_step(
        self, model: nn.Module, inputs: Batch, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Any, Any]:
        """Hand a batch to `validation`, which has its loss; returns the predictions and targets of its rows.

        Returns:
            The loss only if `compute_metrics` is to get it (`include_for_metrics`): its mean is that of `validation`.
        """
        loss, output, targets = self.validation.add(model, self._prepare_inputs(inputs))
        loss = loss if "loss" in self.args.include_for_metrics else None
        if prediction_loss_only:
            return loss, None, None
        predictions = tuple(value for name, value in output.items() if name not in (ignore_keys or ()))
        return loss, predictions if len(predictions) > 1 else predictions[0], targets

    # ------------------------------------------------------------------ the Hub

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Create the repository if it does not exist; see `Publisher`."""
        self.publisher.init_repo(token, private)

    def create_model_card(self, *args: Any, **card: Any) -> None:
        """Write the model card `README.md`, with the arguments of `Publisher.create_card`."""
        self.publisher.create_card(*args, **card)

    def push_to_hub(self, *args: Any, **options: Any) -> Any:
        """Save the model and push its folder, with the arguments of `Publisher.push_to_hub`."""
        return self.publisher.push_to_hub(*args, **options)

    def push_checkpoint(self, checkpoint: Path) -> None:
        """Push what `hub_strategy` says of a checkpoint; see `Publisher`."""
        self.publisher.push_checkpoint(checkpoint)
