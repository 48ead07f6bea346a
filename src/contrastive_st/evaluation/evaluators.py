"""Evaluators of your own data, for `ContrastiveTrainer(evaluator=...)` and for a model at hand.

Their names and arguments are those of sentence-transformers. Each one is called with a model and returns its metrics by
name. In training over several processes it is called on all of them, which share the sentences to encode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.own import judged_splits, read_retrieval, read_scored_pairs
from contrastive_st.evaluation.datasets.senteval import Splits, pair_rows
from contrastive_st.evaluation.suite import run
from contrastive_st.evaluation.tasks import Task, beir_task, own_pairs_task, pair_task, similarity_task
from contrastive_st.models import SentenceEncoder
from contrastive_st.models.protocol import Encoder, as_encoder
from contrastive_st.random_state import preserved_random_state


class TaskEvaluator:
    """An evaluator of one `Task`; the others are made from it.

    Args:
        task: the task, and its data.
        tokenizer: of a bare model that is evaluated; in training, that of the trainer by default.
    """

    distributed: ClassVar[bool] = True  # the trainer calls it on every process, and `run` shares the work

    def __init__(self, task: Task, tokenizer: Any = None) -> None:
        self.task, self.tokenizer = task, tokenizer
        self.splits: Splits = task.load(".")

    @property
    def primary_metric(self) -> str:
        """The name of the main metric, for `metric_for_best_model`."""
        return f"{self.task.name}_{self.task.main[1]}"

    def __call__(self, model: Any) -> dict[str, float]:
        """The metrics of a model by name, such as `dev_spearman`; those that are undefined are left out.

        Args:
            model: a `SentenceEncoder`, a function from texts to vectors, the name of a checkpoint, or, if the evaluator
                has a tokenizer, a model in training.

        Raises:
            InputError: the model cannot be opened, returns NaN, or needs a tokenizer.
        """
        with preserved_random_state():
            scores, _ = run(self._encoder(model), [self.task], {self.task.name: self.splits})
        return {f"{score.task}_{score.metric}": score.value for score in scores if score.value is not None}

    def _encoder(self, model: Any) -> Encoder:
        if not isinstance(model, nn.Module):
            return as_encoder(model)
        if self.tokenizer is None:
            raise InputError("this model has no tokenizer; give the evaluator one: tokenizer=...")
        return SentenceEncoder(model, self.tokenizer, name="the model")


class EmbeddingSimilarityEvaluator(TaskEvaluator):
    """Correlations of cosines with the scores of pairs of sentences: `spearman` and `pearson`.

    Args:
        sentences1: N sentences.
        sentences2: N sentences.
        scores: N scores of any range.
        name: prefix of the metrics.
        tokenizer: as for `TaskEvaluator`.

    Raises:
        InputError: the lengths differ.

    Example:
        >>> evaluate = EmbeddingSimilarityEvaluator(["a", "a", "bbb"], ["b", "ccc", "ddd"], [0.9, 0.1, 1.0], name="dev")
        >>> found = evaluate(lambda texts: np.array([[len(text), 1.0] for text in texts]))
        >>> sorted(found), evaluate.primary_metric
        (['dev_pearson', 'dev_spearman'], 'dev_spearman')
    """

    def __init__(
        self,
        sentences1: Sequence[str],
        sentences2: Sequence[str],
        scores: Sequence[float],
        name: str = "pairs",
        tokenizer: Any = None,
    ) -> None:
        super().__init__(similarity_task(name, _pairs(sentences1, sentences2, scores)), tokenizer)

    @classmethod
    def from_file(
        cls, path: str | Path, name: str | None = None, tokenizer: Any = None
    ) -> EmbeddingSimilarityEvaluator:
        """The scored pairs of a file; see `read_scored_pairs`."""
        rows = read_scored_pairs(path)
        first, second = rows.columns
        return cls(first, second, rows.gold.tolist(), name or Path(path).stem, tokenizer)


class BinaryClassificationEvaluator(TaskEvaluator):
    """Pairs labelled 1 (same) or 0, by a threshold on their cosine: `average_precision`, `best_accuracy`, `best_f1`.

    Args:
        sentences1: N sentences.
        sentences2: N sentences.
        labels: N labels, 0 or 1.
        name: prefix of the metrics.
        tokenizer: as for `TaskEvaluator`.

    Raises:
        InputError: the lengths differ, or a label is neither 0 nor 1.
    """

    def __init__(
        self,
        sentences1: Sequence[str],
        sentences2: Sequence[str],
        labels: Sequence[int],
        name: str = "pairs",
        tokenizer: Any = None,
    ) -> None:
        super().__init__(pair_task(name, _pairs(sentences1, sentences2, labels, labels=True)), tokenizer)


class PairEvaluator(TaskEvaluator):
    """The evaluator of a file of pairs, by their labels or scores: `contrastive-st evaluate --pairs FILE`.

    Args:
        path: as for `read_scored_pairs`.
        name: prefix of the metrics; by default the name of the file.
        tokenizer: as for `TaskEvaluator`.
    """

    def __init__(self, path: str | Path, name: str | None = None, tokenizer: Any = None) -> None:
        super().__init__(own_pairs_task(path, name), tokenizer)


class InformationRetrievalEvaluator(TaskEvaluator):
    """Search of each query among all documents: `ndcg@k`, `mrr@k`, `recall@k`, `recall@100`, and `ndcg@k` of BM25.

    Args:
        queries: texts by id.
        corpus: texts by id.
        relevant_docs: for each query the ids of its relevant documents, or their grades by id.
        name: prefix of the metrics.
        k: number of documents that are considered.
        tokenizer: as for `TaskEvaluator`.

    Raises:
        InputError: an id has no text, or no query has a relevant document.

    Example:
        >>> evaluate = InformationRetrievalEvaluator({"q": "tide"}, {"a": "tides", "b": "a river"}, {"q": {"a"}}, "faq")
        >>> found = evaluate(lambda texts: np.array([[text.count("tide") + 0.1, 1.0] for text in texts]))
        >>> found["faq_ndcg@10"], evaluate.primary_metric
        (1.0, 'faq_ndcg@10')
    """

    def __init__(
        self,
        queries: Mapping[str, str],
        corpus: Mapping[str, str],
        relevant_docs: Mapping[str, Iterable[str] | Mapping[str, float]],
        name: str = "retrieval",
        k: int = 10,
        tokenizer: Any = None,
    ) -> None:
        judged = (
            (query, document, float(own[document]) if isinstance(own, Mapping) else 1.0, f"relevant_docs of {query}")
            for query, own in relevant_docs.items()
            for document in own
        )
        splits = judged_splits(corpus, queries, judged, name)
        super().__init__(beir_task(name, name, k, read=lambda: splits), tokenizer)

    @classmethod
    def from_folder(
        cls, folder: str | Path, name: str | None = None, k: int = 10, tokenizer: Any = None
    ) -> InformationRetrievalEvaluator:
        """The retrieval set of a folder; see `read_retrieval`."""
        own = cls.__new__(cls)
        splits, name = read_retrieval(folder), name or Path(folder).resolve().name
        TaskEvaluator.__init__(own, beir_task(name, name, k, read=lambda: splits), tokenizer)
        return own


def _pairs(
    first: Sequence[str], second: Sequence[str], gold: Sequence[float], labels: bool = False
) -> Callable[[], Splits]:
    """What reads the pairs of an evaluator, after all checks of its arguments."""
    if labels and (wrong := [label for label in gold if label not in (0, 1)]):
        raise InputError(f"label {wrong[0]!r}: labels are 0 or 1; for scores use EmbeddingSimilarityEvaluator")
    if len({len(first), len(second), len(gold)}) != 1:
        raise InputError(f"{len(first)} and {len(second)} sentences with {len(gold)} scores; give as many of each")
    rows = pair_rows(list(zip(first, second, strict=True)), np.asarray(gold).tolist())
    return lambda: Splits({"test": rows}, {}, ("0", "1"))
