"""Validation: the loss, and the measure that fits, on rows that are not trained on.

batches     of equal size, dealt out to the processes: each one encodes its share
loss        of every batch, in evaluation mode; its mean over the rows is `eval_loss`
measure     of the whole set, whose views are gathered once: see `validation_metrics`
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import recursively_apply
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerControl, TrainerState

from contrastive_st.data.classes import numbered_as
from contrastive_st.data.mixture import Mixture
from contrastive_st.distributed import LOCAL, Gather, default_gather, processes
from contrastive_st.errors import InputError
from contrastive_st.losses import Loss
from contrastive_st.losses.base import deferred_checks
from contrastive_st.losses.functional import angular_similarity, matmul_float32, normalize
from contrastive_st.losses.info_nce import NO_TEXT, TIE
from contrastive_st.models.base import text_hashes
from contrastive_st.random_state import preserved_random_state
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.checkpoints import CheckpointTrainer
from contrastive_st.training.evaluator import Evaluation, similarity_of, truncate_dim_of
from contrastive_st.training.gradcache import Batch, Chunks, encode_chunks, encoder_of
from contrastive_st.training.momentum import TOKEN_KEYS
from contrastive_st.training.order import leave_sigterm
from contrastive_st.training.planning import PlanningCollator
from contrastive_st.vectors import PAIRWISE, rounded

logger = logging.getLogger(__name__)
_TIMES = ("runtime", "per_second", "epoch")
_SCORES = 1 << 22  # scores in memory at a time


# --- The metrics of a whole validation set.


def validation_metrics(
    views: Tensor,
    targets: Tensor | None,
    text_hashes: Tensor,
    loss_fn: Loss,
    gather: Gather = LOCAL,
    similarity: str = "cosine",
    part: str | None = None,
    truncate_dim: int | None = None,
) -> dict[str, float]:
    """The measure that fits the rows, of embeddings in the space that is used after training.

    | rows                           | metrics                                                                |
    |--------------------------------|------------------------------------------------------------------------|
    | pairs, with hard negatives     | `mrr`, `accuracy` of finding each anchor's positive by its similarity  |
    |                                | among all positives and hard negatives of the set                      |
    | candidates with scores         | the same                                                               |
    | scored pairs                   | `spearman` correlation of similarities and scores                      |
    | labelled pairs                 | `accuracy` of the head of `SoftmaxLoss`                                |
    | others                         | none                                                                   |

    As in `InfoNCE`, a candidate is not counted as wrong if it has the text of the anchor or of its positive, or is a
    positive of an equal anchor; one as similar as the positive is. Scores are computed in blocks, so memory grows with
    the rows, and time with their square.

    Args:
        views: `[N, V, d]`, the rows of this process.
        targets: None for pairs, `[N]` scores or `[N]` labels, `[N, V - 1]` scores of candidates, or `[N, V, D]` vectors
            of a guide.
        text_hashes: `[N, V]`, equal for equal texts.
        loss_fn: the loss, with its head; inside `MatryoshkaLoss` it is measured with all dimensions.
        gather: collects the rows of all processes; each one computes the ranks of its own.
        similarity: how two vectors are compared, a key of `contrastive_st.vectors.SIMILARITIES`.
        part: the data set of a mixture that the rows are of.
        truncate_dim: vectors are compared by their first dimensions, this many.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.0, 1.0]]])  # the first finds its own
        >>> validation_metrics(views, None, torch.arange(4).view(2, 2), Loss())
        {'mrr': 1.0, 'accuracy': 1.0}
    """
    loss_fn, dim = loss_fn.in_use(part)
    views, kind = views[..., :dim], loss_fn.measure(views.shape[1], targets)
    if kind != "accuracy":  # of a head, which reads all dimensions
        views = views[..., :truncate_dim]
    if kind == "mrr":
        ranks = gather(positive_ranks(views, text_hashes, gather, similarity)).double().cpu()
        return {"mrr": (1 / ranks).mean().item(), "accuracy": (ranks == 1).double().mean().item()}
    if kind == "spearman" and targets is not None:
        similarities, scores = gather(_of_pairs(views[:, 0], views[:, 1], similarity)), gather(targets)
        result = rounded(similarities.double().cpu().numpy())
        golden = scores.double().cpu().numpy()
        varied = min(len(np.unique(result)), len(np.unique(golden))) > 1
        return {"spearman": float(np.nan_to_num(spearmanr(result, golden).statistic)) if varied else 0.0}
    if kind == "accuracy":
        share = loss_fn.metrics(views, targets)["accuracy"] if len(views) else 0.0
        return {"accuracy": gather.total(round(share * len(views))) / max(gather.total(len(views)), 1)}
    return {}


def positive_ranks(views: Tensor, text_hashes: Tensor, gather: Gather = LOCAL, similarity: str = "cosine") -> Tensor:
    """The rank of each anchor's positive among all candidates, from 1: `[N, V, d], [N, V] -> [N]`.

    Args:
        views: anchor, positive, and hard negatives if any.
        text_hashes: equal for equal texts.
        gather: collects the candidates of all processes.
        similarity: as for `validation_metrics`.
    """
    if similarity == "cosine":
        views, similarity = normalize(views), "dot"
    columns = torch.stack([text_hashes, text_hashes], -1)  # its text, and the anchor that it is a positive of
    columns[:, 1, 1] = text_hashes[:, 0]
    candidates, columns = gather(views[:, 1:].flatten(0, 1)), gather(columns[:, 1:].flatten(0, 1))
    text, anchor_of = columns.unbind(1)
    ranks = [torch.ones(0, dtype=torch.long, device=views.device)]
    order = 1 if similarity == "manhattan" else 2
    lengths, of_candidates = (torch.linalg.vector_norm(x.float(), order, dim=-1) for x in (views[:, :2], candidates))
    size = max(_SCORES // max(len(candidates), 1), 1)
    for block, hashes, of_pair in zip(views.split(size), text_hashes.split(size), lengths.split(size), strict=True):
        anchor, positive = hashes[:, :1], hashes[:, 1:2]
        own = _of_pairs(block[:, 0], block[:, 1], similarity)[:, None]
        error = TIE * _SIZES[similarity](of_pair[:, :1], torch.maximum(of_pair[:, 1:], of_candidates))
        wrong = ~(_COMPARED[similarity](block[:, 0], candidates) < own - error)  # NaN is wrong
        wrong &= (text != anchor) & (text != positive) & (anchor_of != anchor) & (text != NO_TEXT)
        ranks.append(1 + wrong.sum(1))
    return torch.cat(ranks)


#: How similar each vector of `[N, d]` is to each of `[M, d]`, as `contrastive_st.vectors.SIMILARITIES` for tensors
_COMPARED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "dot": matmul_float32,
    "euclidean": lambda a, b: -torch.cdist(a.float(), b.float(), compute_mode="donot_use_mm_for_euclid_dist"),
    "manhattan": lambda a, b: -torch.cdist(a.float(), b.float(), p=1),
    "angular": angular_similarity,
}
#: What the rounding errors of a similarity are in proportion to, from the lengths of the two vectors
_SIZES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "dot": torch.mul,
    "euclidean": torch.maximum,
    "manhattan": torch.maximum,
    "angular": lambda a, b: torch.ones_like(b),
}


def _of_pairs(a: Tensor, b: Tensor, similarity: str) -> Tensor:
    """Similarities of the vectors in each row, `[N, d], [N, d] -> [N]`."""
    first, second = (x.detach().float().cpu().numpy() for x in (a, b))
    return torch.from_numpy(np.asarray(PAIRWISE[similarity](first, second), np.float32)).to(a.device)


# --- The batches of each process.


class Share(NamedTuple):
    """A batch that a process encodes: its data set in a mixture, its rows, and whether they count."""

    part: str | None
    rows: range
    counts: bool = True


def parts_of(data: Any) -> dict[str | None, range]:
    """The rows of each data set of a `Mixture`; those of any other data set are one part, None."""
    if not isinstance(data, Mixture):
        return {None: range(len(data))}
    bounds = data.starts.tolist()
    return {name: range(*ends) for name, ends in zip(data.names, itertools.pairwise(bounds), strict=True)}


def shares(parts: Mapping[str | None, range], batch_size: int, rank: int = 0, world: int = 1) -> list[Share]:
    """The batches of one process: at most `batch_size` rows each, and equally many batches on all processes.

    No batch has a single row, which would have no negatives; for that it may be one row larger. The batches of a part
    differ by at most one row, so that none has much fewer negatives than the others, and do not depend on the number of
    processes. A process that would have one less encodes one that does not count.

    Example:
        >>> [list(share.rows) for share in shares({None: range(5)}, 4)]
        [[0, 1], [2, 3, 4]]
        >>> shares({None: range(5)}, 4, rank=2, world=3)
        [Share(part=None, rows=range(0, 2), counts=False)]
    """
    result = []
    for part, rows in parts.items():
        count = max(min(math.ceil(len(rows) / batch_size), len(rows) // 2), 1)
        ends = [i * len(rows) // count for i in range(count + 1)]
        batches = [Share(part, rows[start:end]) for start, end in itertools.pairwise(ends)]
        of_rank = batches[rank::world]
        if len(of_rank) < math.ceil(count / world):
            of_rank.append(batches[0]._replace(counts=False))
        result += of_rank
    return result


class _PartResult:
    """What a process found in one part: the sum of its losses, and the views, hashes and targets of its rows."""

    def __init__(self) -> None:
        self.loss: Tensor | None = None
        self.kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self.rows = 0  # in batches with something to learn from, such as negatives

    def add(
        self, share: Share, loss: Tensor | None, kept: tuple[Tensor, Tensor, Tensor | None] | None, counts: bool
    ) -> None:
        count = len(share.rows) if share.counts else 0
        self.rows += count * counts
        if loss is not None:
            self.loss = loss.float() * count * counts + (0.0 if self.loss is None else self.loss)
        if kept is not None:  # of a batch that does not count: the shapes alone
            views, hashes, targets = kept
            self.kept.append((views[:count], hashes[:count], None if targets is None else targets[:count]))

    def metrics(self, loss_fn: Loss, gather: Gather, part: str | None, **compared: Any) -> dict[str, float]:
        """The mean loss, and the metrics; a collective call."""
        result = dict[str, float]()
        if self.loss is not None:
            result["loss"] = gather.sum(self.loss).item() / (gather.total(self.rows) or math.nan)
        if self.kept:
            views, hashes, targets = zip(*self.kept, strict=True)
            all_targets = None if targets[0] is None else torch.cat(targets)
            measured = torch.cat(views), all_targets, torch.cat(hashes)
            result |= validation_metrics(*measured, loss_fn, gather, part=part, **compared)
        return result


# --- The validation of a trainer.


class Validation:
    """The validation rows and the evaluator of a `ContrastiveTrainer`, which has the arguments.

    Args:
        trainer: its trainer.
        evaluation: its evaluator, if it has one.
        collator: collates validation rows of other roles than the training rows.

    Attributes:
        evaluated: the names of the metrics of the last evaluation.
    """

    def __init__(
        self,
        trainer: CheckpointTrainer,
        evaluation: Evaluation | None,
        collator: Callable[[list[object]], Batch] | None = None,
    ) -> None:
        self.trainer, self.evaluation, self.collator = trainer, evaluation, collator
        self.evaluated: frozenset[str] = frozenset()

    def prepare(self) -> None:
        """Check the validation rows, choose the measure of the best checkpoint, and add early stopping.

        Raises:
            InputError: the rows cannot be validated, or no metric can choose a checkpoint.
        """
        args, data = self.trainer.args, self.trainer.eval_dataset
        rows = {None: data} if not isinstance(data, dict) else data
        kinds = [self._kinds(one) for one in rows.values() if one is not None]
        if kinds:
            self.trainer.add_callback(LogAtEvaluation())
        types = [type(callback) for callback in self.trainer.callback_handler.callbacks]
        stops = args.early_stopping_patience or EarlyStoppingCallback in types
        kept = args.load_best_model_at_end or stops or args.save_strategy == "best"
        if kept and "metric_for_best_model" in args.left_open:
            measures = [] if isinstance(data, dict) else [kind for parts in kinds for kind in parts.values() if kind]
            choice = "loss" if kinds and not isinstance(data, dict) and self.collator is None else None
            named = {} if self.evaluation is None else self.evaluation.main_names
            if (choice := choice or next(iter([*measures, *sorted(named)]), None)) is None:
                if names := _listed(self._names()):
                    raise InputError(
                        f"metric_for_best_model is not given: an evaluation has {names}; choose one of them"
                    )
                raise InputError(
                    "there is no loss or metric of validation rows to choose the best checkpoint by: give "
                    "--validation_file or --validation_split (eval_dataset), or name a metric of the evaluator with "
                    "metric_for_best_model"
                )
            args.metric_for_best_model, args.greater_is_better = choice, named.get(choice, choice != "loss")
        if args.early_stopping_patience and EarlyStoppingCallback not in types:
            self.trainer.add_callback(EarlyStoppingCallback(args.early_stopping_patience))

    def check_best_metric(self) -> None:
        """See before the first step whether an evaluation has the metric that chooses the best checkpoint.

        Where neither the rows nor the evaluator says which metrics there are, there is one evaluation more.

        Raises:
            InputError: it has not; names the metrics that there are.
        """
        args = self.trainer.args
        metric = f"eval_{str(args.metric_for_best_model).removeprefix('eval_')}"
        if args.metric_for_best_model is None or args.eval_strategy == "no":
            return
        names = self.evaluated or self._names()
        if metric not in names and not self.evaluated and (self.evaluation or self.trainer.compute_metrics):
            names = set(self.trainer.evaluate())
        if metric not in names:
            raise InputError(
                f"metric_for_best_model {args.metric_for_best_model}: an evaluation has {_listed(names)}; "
                "choose one of them"
            )

    def _names(self) -> set[str]:
        """The names of the metrics of rows and evaluator, without an evaluation."""
        data, names = self.trainer.eval_dataset, set[str]()
        for name, rows in (data if isinstance(data, dict) else {None: data}).items():
            for part, kind in (self._kinds(rows) if rows is not None else {}).items():
                of_kind = {"mrr": ("mrr", "accuracy")}.get(str(kind), (kind,) if kind else ())
                for metric in (*of_kind, *(() if self.collator else ("loss",))):
                    names |= {"_".join(filter(None, ("eval", name, prefix, metric))) for prefix in {part, None}}
        if self.evaluation:
            names |= {f"eval_{name}" for name in self.evaluation.main_names}
        return names

    def _kinds(self, data: Any) -> dict[str | None, str | None]:
        """The measure of each part of the rows, or None, from the first rows of each.

        Raises:
            InputError: there are no rows, or there is nothing to validate them by.
        """
        loss_fn = self.trainer.core.loss_fn
        kinds: dict[str | None, str | None] = {}
        if not hasattr(data, "__len__"):
            data = list(itertools.islice(data, 2))
        for part, rows in parts_of(data).items():
            if not rows:
                raise InputError(f"the validation data {f'{part} ' if part else ''}have no rows; give some")
            with preserved_random_state():
                batch = (self.collator or self.trainer.data_collator)([data[i] for i in rows[:2]])
            targets, loss = _targets_of_part(batch.get("targets"), part), loss_fn.in_use(part)[0]
            hashes = text_hashes(batch["input_ids"], batch.get("attention_mask"), batch.get("text_mask"))
            single = bool((hashes == hashes[:, :1]).all())
            kinds[part] = None if single else loss.measure(batch["input_ids"].shape[1], targets)
            no_metric = self.trainer.compute_metrics is None and kinds[part] is None
            if no_metric and (self.collator is not None or (single and loss.needs_two_texts)):
                raise InputError(
                    "validation needs pairs, triplets or scored pairs, or labelled pairs with the loss softmax: there "
                    "is no metric for vectors of other rows; give such a validation file and its eval_collator"
                )
        return kinds

    def loader(self, data: Any, measured: bool = True) -> DataLoader[object]:
        """The batches of this process, of validation rows; with `measured`, there is the metric that fits them."""
        trainer = self.trainer
        rows: Any = numbered_as(data if hasattr(data, "__len__") else list(data), trainer.train_dataset)
        parts = parts_of(rows)
        self._measures = self._kinds(rows) if measured else dict.fromkeys(parts)
        batches = shares(parts, trainer.args.eval_batch_size, *processes())
        self._shares: Iterator[Share] = iter(batches)
        self._results: dict[str | None, _PartResult] = {part: _PartResult() for part in parts}
        settings = getattr(trainer.core, "settings", None)
        loss = Loss() if self.collator else getattr(settings, "loss", Loss())
        loader: DataLoader[object] = DataLoader(
            rows,
            batch_sampler=[list(share.rows) for share in batches],
            collate_fn=PlanningCollator(self.collator or trainer.data_collator, loss),
            num_workers=trainer.args.dataloader_num_workers,
        )
        return leave_sigterm(loader)

    def add(self, model: nn.Module, inputs: Batch) -> tuple[Tensor | None, dict[str, Tensor], object]:
        """Encode the next batch of this process, and keep what its metrics are computed from.

        Returns:
            Its loss `[]`, None with an `eval_collator`; its `views` `[B, V, d]` and `text_hashes` `[B, V]`; and its
            targets, `()` without any.
        """
        share = self._share = next(self._shares)
        masked = ("mlm_input_ids", "mlm_targets", "predicted") if "mlm_targets" in inputs else ()  # of the added loss
        with deferred_checks() as checks:
            loss, views = self._evaluate(model, {name: x for name, x in inputs.items() if name not in masked})
        failed = [check for check in checks if not check.fine]
        if wrong := next((check for check in failed if not check.skips), None):
            raise InputError(wrong.words())
        kept, views = None, views.detach()
        hashes = text_hashes(inputs["input_ids"], inputs.get("attention_mask"), inputs.get("text_mask"))
        if self._measures[share.part] is not None:
            kept = views, hashes, _targets_of_part(inputs.get("targets"), share.part)
        self._results[share.part].add(share, loss, kept, counts=not failed)
        targets = inputs.get("targets", ())
        if share.part is not None:  # of integers and of floats, which are joined
            targets = targets.float()
        return loss, {"views": views, "text_hashes": hashes}, targets

    def gather(self, tensors: object) -> object:
        """Tensors of the last batch, nested, with the rows of all processes in the order of the data; collective."""
        rows = len(self._share.rows) if self._share.counts else 0
        return recursively_apply(lambda x: default_gather()(x[:rows].contiguous()), tensors)

    def _evaluate(self, model: nn.Module, inputs: Batch) -> tuple[Tensor | None, Tensor]:
        """The loss of a batch, or None with an `eval_collator`; and its views `[B, V, d]`."""
        core, chunks = self.trainer.accelerator.unwrap_model(model), Chunks.of(self.trainer)
        chunked = chunks.size or chunks.tokens
        if self.collator is None and not chunked:
            with self.trainer.compute_loss_context_manager():
                loss, outputs = self.trainer.compute_loss(model, inputs, return_outputs=True)
            return loss.detach(), outputs["views"]
        rows, encode = {name: inputs[name] for name in TOKEN_KEYS if name in inputs}, encoder_of(self.trainer, model)
        if chunked:
            views = encode_chunks(rows, encode, chunks)
        else:
            flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in rows.items()}
            views = encode(**flat).view(*inputs["input_ids"].shape[:2], -1)
        if self.collator is not None:
            return None, views
        embeddings, words = views.flatten(0, 1), core.words_of(inputs)
        views = core.split_views(views)
        hashes = text_hashes(inputs["input_ids"], inputs.get("attention_mask"), inputs.get("text_mask"))
        named = {"task": inputs["task"]} if "task" in inputs else {}
        loss = core.compute_loss(views, inputs.get("targets"), hashes, **named).detach()
        if words is not None:  # as many texts at a time as there are in a chunk, about
            parts = np.array_split(np.arange(len(embeddings)), -(-len(embeddings) // (chunks.size or 32)))
            with self.trainer.compute_loss_context_manager():
                of_words = words.parts()
                loss = loss + sum(of_words(embeddings[rows], rows) for rows in parts)
        return loss, views

    def metrics(self) -> dict[str, float]:
        """The metrics of each part by its name, and their means; a collective call."""
        core, gather = self.trainer.core, default_gather()
        compared = {"similarity": similarity_of(core), "truncate_dim": truncate_dim_of(core)}
        every = {part: result.metrics(core.loss_fn, gather, part, **compared) for part, result in self._results.items()}
        self._results = {}
        if None in every:
            return every[None]
        named = {f"{part}_{name}": value for part, one in every.items() for name, value in one.items()}
        names = dict.fromkeys(name for one in every.values() for name in one)
        return named | {name: float(np.mean([one[name] for one in every.values() if name in one])) for name in names}

    def evaluator_metrics(self, prefix: str) -> dict[str, float]:
        """The metrics of the evaluator.

        Args:
            prefix: put before each name, with an underscore.

        Returns:
            The metrics by name; empty without an evaluator.
        """
        if self.evaluation is None:
            return {}
        model, state = self.trainer.core, self.trainer.state
        with preserved_random_state():  # such as a probe that is fitted draws numbers
            result = self.evaluation.metrics(model, state.epoch or 0, state.global_step, self.trainer.is_fsdp_enabled)
        return {f"{prefix}_{name}": value for name, value in result.items()}

    def report_best(self) -> None:
        """Log which checkpoint was kept, and why training ended."""
        state, args = self.trainer.state, self.trainer.args
        name = f"eval_{str(args.metric_for_best_model).removeprefix('eval_')}"
        count = sum(name in row for row in state.log_history)
        if args.load_best_model_at_end and count and not state.best_global_step:
            logger.warning(
                f"there is no best checkpoint: {name} was NaN in all {count} evaluations. The weights are those of the "
                "last step"
            )
        if not args.load_best_model_at_end or not state.best_global_step:
            return
        waited = any(getattr(x, "early_stopping_patience_counter", 0) for x in self.trainer.callback_handler.callbacks)
        early = waited and state.global_step < state.max_steps
        step = f"at step {state.global_step}"
        end = f"stopped early {step} of {state.max_steps}" if early else f"training ended {step}"
        logger.info(
            f"kept the checkpoint of step {state.best_global_step}: {name} {state.best_metric:.4f}, the best of "
            f"{count} evaluations; {end}"
        )


@contextlib.contextmanager
def preserved_weights(model: nn.Module) -> Iterator[None]:
    """Restore parameters and buffers on leaving, bit for bit; transformers casts them for `bf16_full_eval`.

    Nothing is copied: what is cast is a new tensor. Where transformers has moved the model to a device, it stays there.
    """
    weights = [(weight, weight.data) for weight in model.parameters()]
    buffers = [(part, name, buffer) for part in model.modules() for name, buffer in part.named_buffers(recurse=False)]
    try:
        yield
    finally:
        for weight, data in weights:
            weight.data = data.to(weight.device)
        for part, name, buffer in buffers:
            setattr(part, name, buffer.to(getattr(part, name).device))


def check_validation(args: ContrastiveTrainingArguments, eval_dataset: object, evaluator: object) -> None:
    """Raise `InputError` if a run is to be evaluated, and has no data for it."""
    names = ("early_stopping_patience", "load_best_model_at_end", "eval_strategy")
    asked, value = next((name, value) for name in names if (value := getattr(args, name)))
    if args.eval_strategy != "no" and not eval_dataset and evaluator is None:
        raise InputError(
            f"{asked} {str(getattr(value, 'value', value)).lower()} needs validation data; give --validation_file or "
            "--validation_split, or in Python eval_dataset=..."
        )


class LogAtEvaluation(TrainerCallback):
    """Logs the training loss at each evaluation too, so that the two can be compared step by step."""

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Log if there is an evaluation."""
        control.should_log |= control.should_evaluate

    on_epoch_end = on_step_end


def _listed(names: Iterable[str]) -> str:
    """The names of metrics, as `metric_for_best_model` takes them."""
    return ", ".join(name.removeprefix("eval_") for name in sorted(names) if not name.endswith(_TIMES))


def _targets_of_part(targets: Tensor | None, part: str | None) -> Tensor | None:
    """The targets without the number of the data set, which comes first in a mixture."""
    if targets is None or part is None:
        return targets
    rest = targets[:, 1:]
    return None if not rest.shape[1] else rest[:, 0] if rest.shape[1:] == (1,) else rest
