"""The tasks: their data, how they are scored, and which score is reported as the main one."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contrastive_st.data.reading import MissingData
from contrastive_st.data.reading.relevance import Judgement
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets import senteval
from contrastive_st.evaluation.datasets.hub_sets import NANO, READERS, read_nano
from contrastive_st.evaluation.datasets.senteval import Document, Embed, Query, Rows, Splits
from contrastive_st.evaluation.datasets.user_data import read_retrieval, read_scored_pairs, retrieval_splits
from contrastive_st.evaluation.scorers import Score, probes, retrieval, sts
from contrastive_st.evaluation.scorers.few_shot import QUOTED, score_few_shot
from contrastive_st.files.folders import folder_name

if TYPE_CHECKING:
    from contrastive_st.models.protocol import Encoder

logger = logging.getLogger(__name__)
Read = Callable[[], Splits]
Scorer = Callable[[Splits, Embed], list[Score]]
_BELOW = ("senteval", "downstream", "data/downstream", "SentEval/data/downstream", "nanobeir", "NanoBEIR", ".")
_OWN_DATA = "."  # the marker of tasks that bring their own data
#: Other names of groups: those by which papers call their averages
ALIASES = {"sts7": "sts", "senteval7": "transfer"}
#: Tasks of two classes, with the file of each
_POLARITY = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}


@dataclass(frozen=True)
class Task:
    """A task of the evaluation: how to read its data and how to score embeddings on it.

    Args:
        name: its name in papers.
        group: the group of tasks with which it is selected and averaged.
        read: SentEval's files below a folder to `Splits`.
        score: `Splits` and embeddings to scores.
        main: split, metric and aggregation of the score to quote.
        marker: the folder of its files, below the data folder.
        hub: reads the data set of the same content from the Hub.
        cost: how long scoring takes relative to other tasks; used only to divide tasks among processes.
        splits: the splits that are scored, by default all. The sentences of other splits are not encoded.
    """

    name: str
    group: str
    read: Callable[[Path], Splits]
    score: Scorer
    main: tuple[str, str, str]
    marker: str
    hub: Read | None = None
    cost: float = 1.0
    splits: tuple[str, ...] = ()

    def load(self, data: str | Path) -> Splits:
        """Read the data from a folder, or from the Hub for "hub"; only the splits that are scored.

        Raises:
            MissingData: the data are missing.
            InputError: the data are damaged.
        """
        roots = (Path(data, below) for below in _BELOW)
        if str(data) != "hub":
            root = next((root for root in roots if (root / self.marker).is_dir()), None)
            if root is None:
                raise MissingData(f"no folder {self.marker} in the data folder")
            splits = self.read(root)
        elif self.hub is None:
            raise MissingData(f"{self.name} has no data set on the Hub; give the folder of its files")
        else:
            splits = self.hub()
        rows = {name: rows for name, rows in splits.items() if not self.splits or name in self.splits}
        return Splits(rows, splits.missing)

    def scored_with(self, **options: object) -> Task:
        """The same task, whose scorer is called with more options, such as `similarity`."""
        scorer: Callable[..., list[Score]] = self.score
        return replace(self, score=partial(scorer, **options))

    def of_encoder(self, encoder: Encoder) -> Task:
        """The same task, whose scorer compares vectors as the encoder records, unless a similarity is set.

        (The STS tasks of papers are by cosine, whatever the model.)
        """
        is_set = "similarity" in getattr(self.score, "keywords", {})
        if self.group == "sts" or is_set or "similarity" not in inspect.signature(self.score).parameters:
            return self
        return self.scored_with(similarity=getattr(encoder, "similarity_fn_name", "cosine"))

    def is_main(self, score: Score) -> bool:
        """Whether this is the main score of the task."""
        split, metric, aggregation = self.main
        return (score.split, score.metric) == (split, metric) and score.aggregation.startswith(aggregation)


def tasks(folds: int = 10) -> dict[str, Task]:
    """All tasks by name; `folds` is SentEval's 10, or 5 for its quick setting."""
    spearman, accuracy = ("test", "spearman", "all"), ("test", "accuracy", "all")
    graded = {
        "STSB": (senteval.read_stsb, range(6), "STS/STSBenchmark"),
        "SICKR": (senteval.read_sick_relatedness, range(1, 6), "SICK"),
    }
    polarity = {
        name: partial(senteval.read_polarity, positive=f"{name}/{positive}", negative=f"{name}/{negative}")
        for name, (positive, negative) in _POLARITY.items()
    }

    def nano(name: str) -> Callable[[Path], Splits]:
        return lambda root: read_retrieval(root / name, itself=True)

    listed = [
        *(Task(name, "sts", partial(senteval.read_sts, name=name), sts.score_subsets, spearman, f"STS/{name}-en-test",
               READERS[name]) for name in senteval.SUBSETS),
        *(Task(name, "sts", read, sts.score_splits, spearman, folder, READERS[name], splits=("dev", "test"))
          for name, (read, _, folder) in graded.items()),
        *(Task(name, "transfer", read, partial(probes.score_nested, task=name, count=folds),
               ("cross-validation", "accuracy", ""), name, READERS.get(name), 60.0) for name, read in polarity.items()),
        Task("SST2", "transfer", senteval.read_sst2, probes.score_split, accuracy, "SST/binary", READERS["SST2"], 30.0),
        Task("TREC", "transfer", senteval.read_trec, partial(probes.score_kfold, task="TREC", count=folds), accuracy,
             "TREC", READERS["TREC"], 30.0),
        Task("MRPC", "transfer", senteval.read_mrpc, partial(probes.score_kfold, task="MRPC", count=folds, f1=True),
             accuracy, "MRPC", READERS["MRPC"], 30.0),
        Task("SICKE", "entailment", senteval.read_sick_entailment, probes.score_split, accuracy, "SICK",
             READERS["SICKE"], 30.0),
        *(Task(f"{name}-supervised", "supervised", read, partial(probes.score_relatedness, levels=levels),
               ("test", "pearson", "all"), folder, READERS[name], 40.0)
          for name, (read, levels, folder) in graded.items()),
        Task("QQP", "pairs", lambda root: senteval.read_qqp(root / "qqp"), sts.score_pairs,
             ("test", "average_precision", "all"), "qqp", READERS["QQP"]),
        Task("NLI", "entailment", lambda root: probes.read_nli(root / "nli" / "pairs.tsv"), probes.score_nli,
             ("test", "accuracy", "fitted"), "nli", None, 30.0),
        Task("space", "space", senteval.read_stsb, sts.score_space, ("dev", "uniformity", "distinct"),
             "STS/STSBenchmark", READERS["STSB"], splits=("dev",)),
        *(Task(f"{name}-few-shot", "few-shot", read, score_few_shot,
               ("test", "accuracy", f"mean classifier, {QUOTED} "), name, READERS[name], 40.0)
          for name, read in (("MR", polarity["MR"]), ("TREC", senteval.read_trec))),
        *(Task(name, "nanobeir", nano(name), retrieval.score_beir, ("test", "ndcg@10", "among"), name,
               partial(read_nano, name), 5.0) for name in (f"Nano{one}" for one in NANO)),
    ]  # fmt: skip
    return {task.name: task for task in listed}


def choose(names: str | Sequence[str], folds: int = 10) -> list[Task]:
    """Select tasks by name or group, from a string "a,b" or a list.

    "sts7" is the group "sts": STS12 to STS16, the test sets of STS-B and SICK-R. "senteval7" is "transfer", "nanobeir"
    the 13 sets of NanoBEIR. "all" selects every task but those of NanoBEIR.

    Args:
        names: names of tasks and groups, separated by commas, or a list of them.
        folds: folds of the cross-validations.

    Returns:
        The tasks, each once.

    Raises:
        InputError: a name is unknown; the message lists all names.

    Example:
        >>> [task.name for task in choose("transfer")]
        ['MR', 'CR', 'SUBJ', 'MPQA', 'SST2', 'TREC', 'MRPC']
    """
    available = tasks(folds)
    chosen: dict[str, Task] = {}
    for name in names.split(",") if isinstance(names, str) else names:
        plain = ALIASES.get(name.strip().lower(), name.strip().lower())
        result = {t.name: t for t in available.values() if plain in (t.name.lower(), t.group)}
        if plain == "all":
            result = {t.name: t for t in available.values() if t.group != "nanobeir"}
        if not result:
            groups = ", ".join(dict.fromkeys([*(task.group for task in available.values()), *ALIASES]))
            raise InputError(f"unknown task {name!r}; groups: all, {groups}; tasks: {', '.join(available)}")
        chosen |= result
    return list(chosen.values())


def chosen(asked: str | Sequence[str] | Sequence[Task], folds: int = 10) -> list[Task]:
    """The tasks of a list of `Task` objects and names, each once; other data of the same name are "NAME (2)".

    Args:
        asked: names as for `choose`, `Task` objects, or a list of both.
        folds: folds of the cross-validations.

    Returns:
        The tasks.
    """
    listed = [asked] if isinstance(asked, str) else asked
    result: dict[str, Task] = {}
    for task in (task for one in listed for task in ([one] if isinstance(one, Task) else choose(one, folds))):
        same = result.get(task.name, task)
        if same is task or (same.marker == task.marker != _OWN_DATA):
            result[task.name] = task
            continue
        name = unused(task.name, result)
        logger.warning(f"another task is called {task.name}; this one is reported as {name}")
        result[name] = replace(task, name=name)
    return list(result.values())


def unused(name: str, taken: Container[str]) -> str:
    """The name, or "NAME (2)", "NAME (3)", ... if it is known already.

    Args:
        name: the name.
        taken: the names that are taken.

    Returns:
        A name that is not taken.
    """
    return next(one for one in (name, *(f"{name} ({i})" for i in range(2, 1000))) if one not in taken)


def own_task(name: str, group: str, read: Read, score: Scorer, metric: str, aggregation: str = "all") -> Task:
    """A task that brings its data, wherever those of others are: `read()` returns `Splits` with "test".

    Args:
        name: of the task.
        group: of tasks.
        read: returns its rows.
        score: rows and embeddings to scores.
        metric: the metric to quote.
        aggregation: the start of that of the score to quote.

    Returns:
        The task.
    """
    return Task(name, group, lambda _: read(), score, ("test", metric, aggregation), _OWN_DATA, read)


def pair_task(name: str, read: Read) -> Task:
    """A task with pairs labelled 0 and 1: `read()` returns `Splits` with "test" and optionally "train".

    Args:
        name: of the task.
        read: returns its rows.

    Returns:
        The task; its main score is the average precision.
    """
    return own_task(name, "pairs", read, sts.score_pairs, "average_precision")


def similarity_task(name: str, read: Read) -> Task:
    """A task with scored pairs, the "test" of `read()`: the correlations of cosines and scores.

    Args:
        name: of the task.
        read: returns its rows.

    Returns:
        The task; its main score is Spearman's correlation.

    Example:
        >>> import numpy as np
        >>> from contrastive_st.evaluation.datasets.senteval import pair_rows
        >>> pairs = pair_rows([("a", "b"), ("a", "c"), ("b", "c")], [5.0, 0.0, 1.0])
        >>> task = similarity_task("pairs", lambda: Splits({"test": pairs}))
        >>> vectors = {"a": [1.0, 0.0], "b": [1.0, 0.1], "c": [0.0, 1.0]}
        >>> [score.text for score in task.score(task.load("."), lambda texts: np.array([vectors[t] for t in texts]))]
        ['99.51', '100.00']
    """
    return own_task(name, "similarity", read, partial(sts.score_splits, names=("test",)), "spearman")


def triplet_task(name: str, read: Read, margin: float | Mapping[str, float] = 0.0) -> Task:
    """A task with triplets (anchor, positive, negative), the "test" of `read()`: anchors are queries, others documents.

    Args:
        name: of the task.
        read: returns its rows.
        margin: the positive must be more similar by this much; or this for each name of a similarity.

    Returns:
        The task; its main score is the accuracy.
    """

    def in_roles() -> Splits:
        rows = read()["test"]
        kinds = zip((Query, Document, Document), rows.columns, strict=True)
        return Splits({"test": replace(rows, columns=tuple(list(map(kind, texts)) for kind, texts in kinds))})

    return own_task(name, "triplets", in_roles, partial(sts.score_triplets, margin=margin), "accuracy")


def own_pairs_task(path: str | Path, name: str | None = None, columns: Sequence[str] | None = None) -> Task:
    """The task of a file of pairs: labels 0 and 1 against a threshold, other numbers by their correlation.

    Args:
        path: as for `read_scored_pairs`.
        name: by default the name of the file.
        columns: as for `read_scored_pairs`.

    Returns:
        The task.

    Raises:
        InputError: the file cannot be read, or its columns are not understood.
    """
    rows, name = read_scored_pairs(path, columns), name or Path(path).stem
    if not set(np.unique(rows.labels)) <= {0.0, 1.0}:
        return similarity_task(name, lambda: Splits({"test": rows}))
    labelled = Rows(rows.columns, rows.labels.astype(np.int64))
    return pair_task(name, lambda: Splits({"test": labelled}))


def retrieval_task(name: str, pairs: Sequence[tuple[str, str]], k: int = 10, others: Sequence[str] = ()) -> Task:
    """A task with (query, relevant document) pairs: each query is searched among all documents.

    Args:
        name: of the task.
        pairs: the texts of the queries and of the documents.
        k: number of documents that are considered.
        others: documents that are relevant to no query.

    Returns:
        The task; its main score is MRR@k.

    Example:
        >>> import numpy as np
        >>> task = retrieval_task("faq", [("how?", "like this"), ("why?", "because")])
        >>> one_hot = lambda texts: np.eye(4)[[hash_of(t) for t in texts]]
        >>> hash_of = {"how?": 0, "like this": 0, "why?": 1, "because": 1}.get
        >>> [score.text for score in task.score(task.load("."), one_hot)]
        ['100.00', '100.00', '100.00', '100.00']
    """
    documents = dict.fromkeys([*(document for _, document in pairs), *others])
    queries = dict.fromkeys(query for query, _ in pairs)
    relevance = [Judgement(query, document, 1.0, name) for query, document in pairs]
    corpus, asked = ({text: text for text in texts} for texts in (documents, queries))
    splits = retrieval_splits(corpus, asked, relevance, name, queries.keys() & documents.keys())
    score = partial(retrieval.score_beir, k=k, lexical=False)
    return own_task(name, "retrieval", lambda: splits, score, f"mrr@{k}", "among")


def beir_task(source: str | Path, name: str | None = None, k: int = 10, *, read: Read | None = None) -> Task:
    """Retrieval on a folder (`read_retrieval`) or a set of NanoBEIR (`NanoSciFact`, ...). The main score is nDCG@k.

    Args:
        source: as above.
        name: by default that of the folder or set.
        k: number of documents that are considered.
        read: reads the set, as `read_retrieval` does, from elsewhere.

    Returns:
        The task.
    """
    folder = Path(source).is_dir()
    load = read or (partial(read_retrieval, source) if folder else partial(read_nano, str(source)))
    name = name or (folder_name(source) if folder else str(source))
    return own_task(name, "retrieval", load, partial(retrieval.score_beir, k=k), f"ndcg@{k}", "among")
