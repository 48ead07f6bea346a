"""Evaluation in the middle of training, that leaves no trace in it: same weights in the end as without."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contrastive_st.evaluation.scorers import Score
from contrastive_st.evaluation.scorers.retrieval import ranks_of_own, retrieval_metrics
from contrastive_st.evaluation.scorers.sts import find_stsb, read_stsb, sts_spearman
from contrastive_st.evaluation.suite import load, run
from contrastive_st.evaluation.tasks import Task, chosen
from contrastive_st.models import SentenceEncoder


@contextlib.contextmanager
def untouched_random_state() -> Iterator[None]:
    """Put the random states of Python, NumPy and torch (all devices) back on leaving.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> with untouched_random_state():
        ...     _ = torch.rand(3)
        >>> torch.initial_seed(), round(torch.rand(1).item(), 4)
        (0, 0.4963)
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)


class SuiteEvaluator:
    """`ContrastiveTrainer(evaluator=SuiteEvaluator(tokenizer, "STSB,CR", data))`: the quoted figure of each task.

    The data is read once, when this is made. Names are like `stsb_spearman` and `cr_accuracy`; with `dev=True` (the
    default) figures of the dev split take the place of test figures where a task has them, and the name says so
    (`stsb_dev_spearman`): a run that picks its checkpoint by the test split reports a wrong test figure.

    Args:
        tokenizer: the model's.
        tasks: names and groups, or `Task` objects, as for `evaluate`.
        data: folder, or "hub".
        dev: prefer dev splits.
        folds: of cross-validations; SentEval's quick setting by default.
        distributed: share the work out over the processes. All must call it then; `ContrastiveTrainer` calls its
            evaluator on one, so leave it off there.

    Raises:
        InputError: an unknown task, or no data for any.
    """

    def __init__(
        self,
        tokenizer: Any,
        tasks: str | Sequence[str] | Sequence[Task] = "STSB",
        data: str | Path = "hub",
        *,
        dev: bool = True,
        folds: int = 5,
        distributed: bool = False,
    ) -> None:
        self.tokenizer, self.dev, self.distributed = tokenizer, dev, distributed
        self.tasks = chosen(tasks, folds)
        self.data = load(self.tasks, data)

    def __call__(self, model: Any) -> dict[str, float]:
        with untouched_random_state():
            encoder = SentenceEncoder(model, self.tokenizer, name="the model")
            figures, _ = run(encoder, self.tasks, self.data, distributed=self.distributed)
        quoted = (self._quoted(task.name, task.is_main, figures) for task in self.tasks)
        return {name: value for found in quoted for name, value in found.items()}

    def _quoted(self, task: str, is_main: Any, figures: Sequence[Score]) -> dict[str, float]:
        own = [f for f in figures if f.task == task]
        main = next((f for f in own if is_main(f)), None)
        dev = [f for f in own if self.dev and f.split == "dev" and (main is None or f.metric == main.metric)]
        chosen = dev[0] if dev else main
        if chosen is None or chosen.value is None:
            return {}
        middle = "_dev_" if chosen.split == "dev" else "_"
        return {f"{task.lower()}{middle}{chosen.metric}": chosen.value}


class EvaluationCallback(TrainerCallback):
    """For any `transformers.Trainer`: run a `SuiteEvaluator` every so many steps; figures go to the log history.

    Called on every process, so the evaluator may be `distributed`.

    Args:
        evaluator: takes the model, returns named figures.
        every: steps from one evaluation to the next.
    """

    def __init__(self, evaluator: Any, every: int) -> None:
        self.evaluator, self.every = evaluator, every

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        if state.global_step % self.every:
            return
        inner = model.module if hasattr(model, "module") else model
        figures = {f"eval_{name}": value for name, value in self.evaluator(inner).items()}
        state.log_history.append({**figures, "step": state.global_step})


def retrieval_evaluator(
    tokenizer: Any, queries: Sequence[str], documents: Sequence[str]
) -> Callable[[Any], dict[str, float]]:
    """`ContrastiveTrainer(evaluator=...)`: MRR@10 and recall@10 of each query's own document among all documents.

    Args:
        tokenizer: the model's.
        queries: N texts.
        documents: N texts; the one at the place of a query is its own.
    """

    def evaluate(model: Any) -> dict[str, float]:
        encoder = SentenceEncoder(model, tokenizer)
        found = encoder.encode_query(list(queries), normalize_embeddings=True)
        sought = encoder.encode_document(list(documents), normalize_embeddings=True)
        return retrieval_metrics(ranks_of_own(found, sought))

    return evaluate


def sts_evaluator(tokenizer: Any) -> Callable[[Any], dict[str, float]] | None:
    """`ContrastiveTrainer(evaluator=...)`: Spearman's rho of STS-B dev; None where it is not at hand."""
    path = find_stsb("dev")
    if path is None:
        return None
    pairs = read_stsb(path)
    return lambda model: {"stsb_spearman": sts_spearman(SentenceEncoder(model, tokenizer).encode, pairs)}
