"""Evaluators of your data, for `ContrastiveTrainer(evaluator=...)` and to call on any model.

Their names and arguments are those of sentence-transformers. Each one is called with a model and returns its metrics by
name. In training over several processes it is called on all of them, which share the sentences to encode.
"""

from __future__ import annotations

import csv
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.profile import is_missing
from contrastive_st.data.reading.relevance import Judgement
from contrastive_st.distributed import processes
from contrastive_st.errors import InputError, about, choice
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.datasets.user_data import read_scored_pairs, retrieval_splits, scored
from contrastive_st.evaluation.suite import run
from contrastive_st.evaluation.tasks import Task, beir_task, own_pairs_task, pair_task, similarity_task, triplet_task
from contrastive_st.files.writing import atomic_write
from contrastive_st.former import with_former_names
from contrastive_st.models import SentenceEncoder
from contrastive_st.models.protocol import as_encoder, with_options
from contrastive_st.random_state import preserved_random_state
from contrastive_st.tokens import items_in_order
from contrastive_st.vectors import SIMILARITIES


class TaskEvaluator:
    """An evaluator of one `Task`; the others are made from it.

    Args:
        task: the task, and its data.
        tokenizer: of a bare model that is evaluated; in training, that of the trainer by default.
        main_similarity: how vectors are compared: `cosine`, `dot`, `euclidean`, `manhattan` or `angular`, or a
            `SimilarityFunction` of sentence-transformers; by default as the model records.
        batch_size: most texts that the model encodes at a time.
        show_progress_bar: show the rate of encoding.
        truncate_dim: use only so many of the first dimensions.
        query_prompt: prompt of queries, instead of the one that the model records.
        query_prompt_name: name of a recorded prompt for queries.
        corpus_prompt: prompt of documents, instead of the one that the model records.
        corpus_prompt_name: name of a recorded prompt for documents.
        write_csv: append the metrics to `NAME_results.csv` in the folder `output_path` of a call, if it has one; an
            undefined metric is blank, and so are the new columns of a file that has others.

    Raises:
        InputError: an unknown similarity.
    """

    distributed: ClassVar[bool] = True  # the trainer calls it on every process, and `run` shares the work

    def __init__(
        self,
        task: Task,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        main_similarity: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        truncate_dim: int | None = None,
        query_prompt: str | None = None,
        query_prompt_name: str | None = None,
        corpus_prompt: str | None = None,
        corpus_prompt_name: str | None = None,
        write_csv: bool = True,
    ) -> None:
        main_similarity = getattr(main_similarity, "value", main_similarity)  # a SimilarityFunction
        choice("main_similarity", main_similarity, (None, *SIMILARITIES))
        self.task, self.tokenizer, self.main_similarity = task, tokenizer, main_similarity
        self.write_csv = write_csv
        self.splits: Splits = task.load(".")
        self._options: dict[str, Any] = {
            "batch_size": batch_size, "show_progress_bar": show_progress_bar or None, "truncate_dim": truncate_dim,
            "query": {"prompt": query_prompt, "prompt_name": query_prompt_name},
            "document": {"prompt": corpus_prompt, "prompt_name": corpus_prompt_name},
        }  # fmt: skip

    @property
    def primary_metric(self) -> str:
        """The name of the main metric, for `metric_for_best_model`."""
        return f"{self.task.name}_{self.task.main[1]}"

    def __call__(
        self, model: object, output_path: str | Path | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """The metrics of a model by name, such as `dev_spearman`; those that are undefined are left out.

        Args:
            model: anything that `as_encoder` takes, such as a `SentenceEncoder`, a `SentenceTransformer`, a function
                from texts to vectors or a checkpoint's name; with a tokenizer, a model in training.
            output_path: folder of the csv file.
            epoch: the epoch of the training, for the csv file.
            steps: the step of the training, for the csv file.

        Raises:
            InputError: the model cannot be opened, returns NaN, or needs a tokenizer.
        """
        if not isinstance(model, nn.Module) or hasattr(model, "encode"):
            encoder = as_encoder(model)
        elif self.tokenizer is None:
            raise InputError("this model has no tokenizer; give the evaluator one: tokenizer=...")
        else:
            encoder = SentenceEncoder(model, self.tokenizer, name="the model")
        task = self.task
        if self.main_similarity and "similarity" in inspect.signature(task.score).parameters:
            task = task.scored_with(similarity=self.main_similarity)
        with preserved_random_state():
            scores = run(with_options(encoder, **self._options), [task], {task.name: self.splits})
        result = {f"{score.task}_{score.metric}": score.value for score in scores if score.value is not None}
        if output_path is not None and self.write_csv and processes()[0] == 0:
            row = {"epoch": epoch, "steps": steps, **{f"{score.task}_{score.metric}": score.value for score in scores}}
            _add_row(Path(output_path, f"{self.task.name}_results.csv"), row)
        return result


@with_former_names
class EmbeddingSimilarityEvaluator(TaskEvaluator):
    """Correlations of similarities with the scores of pairs of sentences: `spearman` and `pearson`.

    Args:
        sentences1: N sentences.
        sentences2: N sentences.
        scores: N scores of any range. A pair whose score is missing (None, NaN, NA) is left out, which the log says.
        name: prefix of the metrics.
        options: `tokenizer` and others, as for `TaskEvaluator`.

    Raises:
        InputError: the lengths differ, or no pair has a score.

    Example:
        >>> evaluate = EmbeddingSimilarityEvaluator(["a", "a", "bbb"], ["b", "ccc", "ddd"], [0.9, 0.1, 1.0], name="dev")
        >>> metrics = evaluate(lambda texts: np.array([[len(text), 1.0] for text in texts]))
        >>> sorted(metrics), evaluate.primary_metric
        (['dev_pearson', 'dev_spearman'], 'dev_spearman')
    """

    def __init__(
        self,
        sentences1: Sequence[str],
        sentences2: Sequence[str],
        scores: Sequence[object],
        name: str = "pairs",
        **options: Any,
    ) -> None:
        rows = _rows([sentences1, sentences2], scores, name)
        super().__init__(similarity_task(name, lambda: Splits({"test": rows})), **options)

    @classmethod
    def from_file(
        cls, path: str | Path, name: str | None = None, columns: Sequence[str] | None = None, **options: Any
    ) -> EmbeddingSimilarityEvaluator:
        """The scored pairs of a file; `path` and `columns` are as for `read_scored_pairs`.

        Args:
            path: as for `read_scored_pairs`.
            name: prefix of the metrics; by default the name of the file.
            columns: as for `read_scored_pairs`.
            options: as for `TaskEvaluator`.

        Returns:
            The evaluator.
        """
        rows = read_scored_pairs(path, columns)
        first, second = rows.columns
        return cls(first, second, rows.labels.tolist(), name or Path(path).stem, **options)


@with_former_names
class BinaryClassificationEvaluator(TaskEvaluator):
    """Pairs labelled 1 (same) or 0, by a threshold of similarity: `average_precision`, `best_accuracy`, `best_f1`.

    Args:
        sentences1: N sentences.
        sentences2: N sentences.
        labels: N labels, 0 or 1. A pair whose label is None or NaN is left out, which the log says.
        name: prefix of the metrics.
        options: `tokenizer` and others, as for `TaskEvaluator`.

    Raises:
        InputError: the lengths differ, or a label is neither 0 nor 1.
    """

    def __init__(
        self,
        sentences1: Sequence[str],
        sentences2: Sequence[str],
        labels: Sequence[object],
        name: str = "pairs",
        **options: Any,
    ) -> None:
        rows = _rows([sentences1, sentences2], labels, name)
        if wrong := set(rows.labels.tolist()) - {0.0, 1.0}:
            raise InputError(f"label {wrong.pop():g}: labels are 0 or 1; for scores use EmbeddingSimilarityEvaluator")
        super().__init__(pair_task(name, lambda: Splits({"test": rows})), **options)


@with_former_names
class TripletEvaluator(TaskEvaluator):
    """The share of triplets whose positive is more similar to the anchor than the negative: `accuracy`.

    Args:
        anchors: N sentences.
        positives: N sentences.
        negatives: N sentences.
        name: prefix of the metric.
        margin: the positive must be more similar by this much; or this for each name of a similarity.
        main_similarity_function: as `main_similarity` of `TaskEvaluator`.
        options: `tokenizer` and others, as for `TaskEvaluator`.

    Raises:
        InputError: the lengths differ.

    Example:
        >>> evaluate = TripletEvaluator(["a", "bb"], ["c", "dd"], ["eeee", "f"], name="dev")
        >>> evaluate(lambda texts: np.array([[len(text), 1.0] for text in texts]))
        {'dev_accuracy': 1.0}
    """

    def __init__(
        self,
        anchors: Sequence[str],
        positives: Sequence[str],
        negatives: Sequence[str],
        name: str = "triplets",
        margin: float | Mapping[str, float] | None = None,
        main_similarity_function: str | None = None,
        **options: Any,
    ) -> None:
        rows = _rows([anchors, positives, negatives], [1] * len(anchors), name)
        task = triplet_task(name, lambda: Splits({"test": rows}), margin or 0.0)
        super().__init__(task, **{"main_similarity": main_similarity_function, **options})


@with_former_names
class PairEvaluator(TaskEvaluator):
    """The evaluator of a file of pairs, by their labels or scores: `contrastive-st evaluate --pairs FILE`.

    Args:
        path, columns: as for `read_scored_pairs`.
        name: prefix of the metrics; by default the name of the file.
        options: `tokenizer` and others, as for `TaskEvaluator`.
    """

    def __init__(
        self, path: str | Path, name: str | None = None, columns: Sequence[str] | None = None, **options: Any
    ) -> None:
        super().__init__(own_pairs_task(path, name, columns), **options)


@with_former_names
class InformationRetrievalEvaluator(TaskEvaluator):
    """Search of each query among all documents: `ndcg@k`, `mrr@k`, `recall@k`, `recall@100`, and `ndcg@k` of BM25.

    Args:
        queries: texts by id.
        corpus: texts by id.
        relevant_docs: for each query the ids of its relevant documents, or their grades by id.
        name: prefix of the metrics.
        k: number of documents that are considered.
        mrr_at_k, ndcg_at_k, accuracy_at_k, precision_recall_at_k, map_at_k: these metrics too, each for some numbers of
            documents.
        main_score_function: as `main_similarity` of `TaskEvaluator`.
        options: as for `TaskEvaluator`.

    Raises:
        InputError: an id has no text, or no query has a relevant document.

    Example:
        >>> evaluate = InformationRetrievalEvaluator({"q": "tide"}, {"a": "tides", "b": "a river"}, {"q": {"a"}}, "faq")
        >>> metrics = evaluate(lambda texts: np.array([[text.count("tide") + 0.1, 1.0] for text in texts]))
        >>> metrics["faq_ndcg@10"], evaluate.primary_metric
        (1.0, 'faq_ndcg@10')
    """

    def __init__(
        self,
        queries: Mapping[str, str],
        corpus: Mapping[str, str],
        relevant_docs: Mapping[str, Iterable[str] | Mapping[str, float]],
        name: str = "retrieval",
        k: int = 10,
        *,
        mrr_at_k: Sequence[int] = (),
        ndcg_at_k: Sequence[int] = (),
        accuracy_at_k: Sequence[int] = (),
        precision_recall_at_k: Sequence[int] = (),
        map_at_k: Sequence[int] = (),
        main_score_function: str | None = None,
        **options: Any,
    ) -> None:
        if single := [query for query, item in relevant_docs.items() if isinstance(item, str)]:
            raise InputError(f"relevant_docs of {single[0]}: give a list of ids, not one")
        relevance = (
            Judgement(query, document, _number(grade, f"relevant_docs of {query}"), f"relevant_docs of {query}")
            for query, item in relevant_docs.items()
            for document, grade in (item if isinstance(item, Mapping) else dict.fromkeys(item, 1.0)).items()
        )
        asked = {
            "mrr": mrr_at_k, "ndcg": ndcg_at_k, "accuracy": accuracy_at_k, "precision": precision_recall_at_k,
            "recall": precision_recall_at_k, "map": map_at_k,
        }  # fmt: skip
        metrics = [(metric, depth) for metric, depths in asked.items() for depth in depths]
        splits = retrieval_splits(corpus, queries, relevance, name)
        task = beir_task(name, name, k, read=lambda: splits).scored_with(metrics=metrics)
        super().__init__(task, **{"main_similarity": main_score_function, **options})

    @classmethod
    def from_folder(
        cls, folder: str | Path, name: str | None = None, k: int = 10, **options: Any
    ) -> InformationRetrievalEvaluator:
        """The retrieval set of a folder; see `read_retrieval`. Options are those of `TaskEvaluator`.

        Args:
            folder: as for `read_retrieval`.
            name: prefix of the metrics; by default the name of the folder.
            k: number of documents that are considered.
            options: as for `TaskEvaluator`.

        Returns:
            The evaluator.
        """
        made = cls.__new__(cls)
        TaskEvaluator.__init__(made, beir_task(folder, name, k), **options)
        return made


def _add_row(path: Path, row: Mapping[str, object]) -> None:
    """Append a row to a csv file. Columns that the row or the file alone has are blank in the others."""
    rows: list[Mapping[str, object]] = []
    if path.is_file():
        with open(path, newline="", encoding="utf-8") as before:
            rows += csv.DictReader(before, restkey="without a name")
    rows.append(row)
    with atomic_write(path, overwrite=True, parents=True) as new, open(new, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, dict.fromkeys(name for one in rows for name in one))
        writer.writeheader()
        writer.writerows(rows)


def _rows(columns: Sequence[Sequence[str]], labels: Sequence[object], name: str) -> Rows:
    """The rows of an evaluator whose labels are numbers."""
    texts = [[column] if isinstance(column, str) else items_in_order(column) for column in columns]
    if len({*map(len, texts), len(labels)}) != 1:
        lengths = " and ".join(str(len(column)) for column in texts)
        raise InputError(f"{lengths} sentences with {len(labels)} scores; give as many of each")
    for number, row in enumerate(zip(*texts, strict=True)):
        if wrong := [text for text in row if not isinstance(text, str)]:
            raise InputError(f"{name}, row {number}: {wrong[0]!r} is not a text")
    with about(name):
        # a column of arrow or polars too, or one of [N, 1]
        values = np.asarray(labels, dtype=object).reshape(len(labels))
    numbers = [_number(value, f"{name}, row {number}") for number, value in enumerate(values)]
    return scored(Rows(tuple(texts), np.array(numbers)), name)


def _number(value: Any, where: str) -> float:
    """A score or a grade; NaN if it is missing."""
    try:
        return math.nan if is_missing(value) else float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {str(value)[:40]!r} is not a number") from None
