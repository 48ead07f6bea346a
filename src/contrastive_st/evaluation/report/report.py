"""`Report`: the scores of an evaluation as a table, JSON, Markdown and metadata of the Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from contrastive_st.errors import about
from contrastive_st.evaluation.datasets.senteval import Splits
from contrastive_st.evaluation.scorers import NOT_RUN, Score
from contrastive_st.evaluation.tasks import Task, tasks
from contrastive_st.files.cards import EVAL_RESULTS, read_head, with_head
from contrastive_st.files.markdown import as_text
from contrastive_st.files.reading import JsonObject, read_json
from contrastive_st.files.writing import atomic_write, write_files
from contrastive_st.terminal import columns

_COLUMNS = (
    "model", "task", "split", "metric", "aggregation", "value", "x100 +-", "n", "pooling", "max_length", "note"
)  # fmt: skip
#: Groups whose average is reported in papers, and what it is an average of
AVERAGED = {"sts": "STS sets", "transfer": "SentEval tasks", "nanobeir": "NanoBEIR sets"}


@dataclass
class Report:
    """Every score of a run, in the order of models and tasks.

    Args:
        source: "files" or "hub".
        tasks: the requested tasks.
        scores: the scores; a score without a value has the reason in its note.
        failures: models that could not be evaluated, and the reasons.
        seconds: wall time of each model; the only part of a report that differs from run to run.
        fingerprints: those of the models that have one, as they were evaluated; a name may be that of several folders.
    """

    source: str
    tasks: Sequence[Task]
    scores: list[Score] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """Names of the models, in order."""
        return list(dict.fromkeys(score.model for score in self.scores))

    def called(self, name: str) -> list[str]:
        """The models that were given by a name: `NAME`, `NAME (2)`, ..., as equal names are numbered.

        Example:
            >>> scores = [Score("STSB", "test", "spearman", 0.5, model=model) for model in ("a", "b", "a (2)")]
            >>> Report("files", [], scores).called("a")
            ['a', 'a (2)']
        """
        return [model for model in self.models if re.fullmatch(rf"{re.escape(name)}( \(\d+\))?", model)]

    def main(self, model: str, task: Task) -> Score:
        """The main score of a task; without a value if the task was not run.

        Args:
            model: its name.
            task: one of the tasks of the report.

        Returns:
            The score.
        """
        scores = [f for f in self.scores if f.model == model and f.task == task.name]
        empty = Score(task.name, *task.main[:2], None, task.main[2], note="no such score", model=model)
        return next((f for f in scores if task.is_main(f)), scores[0] if len(scores) == 1 else empty)

    def average(self, model: str, group: str) -> Score | None:
        """The mean of a group's main scores, named by what it is of: "mean of 7 STS sets", "mean of 4 of 7 STS sets".

        If some are missing, the note names them. None if fewer than two tasks of the group were requested.

        Args:
            model: its name.
            group: of tasks.

        Returns:
            The mean, or None.
        """
        if group not in AVERAGED or sum(task.group == group for task in self.tasks) < 2:
            return None
        sets = {task.name: task for task in tasks().values() if task.group == group}
        asked = [task for task in self.tasks if task.group == group]  # a set of the user may have the name of another
        result = [f for f in (self.main(model, task) for task in asked) if f.value is not None and not f.note]
        missing = [name for name in sets if name not in {f.task for f in result}]
        note = f"without {', '.join(missing)}" if missing else ""
        count = f"{len(result)} of {len(sets)}" if missing else f"{len(sets)}"
        value = sum(f.value for f in result if f.value is not None) / len(result) if result else None
        name, n = f"mean of {count} {AVERAGED[group]}", sum(f.n for f in result)
        return Score(name, *asked[0].main[:2], value, "mean of tasks", n, note=note, model=model)

    def rows(self) -> list[list[Score]]:
        """The rows of the table: a row per main score or average, a column per model."""
        listed: list[list[Score]] = []
        for group in dict.fromkeys(task.group for task in self.tasks):
            for task in (task for task in self.tasks if task.group == group):
                listed += self._task_rows(task)
            averages = [self.average(model, group) for model in self.models]
            listed += [[f for f in averages if f is not None]] if averages and averages[0] else []
        return listed

    def _task_rows(self, task: Task) -> list[list[Score]]:
        mains = [self.main(model, task) for model in self.models]
        if task.group not in ("space", "retrieval", "pairs", "similarity"):
            return [mains]
        scores = [(f, (f.split, f.metric, f.aggregation)) for f in self.scores if f.task == task.name]
        # a model that failed has the beginning of the aggregation alone: no row, where another model has it all
        complete = any(task.is_main(f) and key != task.main for f, key in scores)
        keys = dict.fromkeys(key for _, key in scores if not (complete and key == task.main))
        by = {(f.model, *key): f for f, key in scores}
        return [[by.get((m, *key), Score(task.name, *key[:2], None, key[2])) for m in self.models] for key in keys]

    def table(self) -> str:
        """Plain text, for a terminal."""
        head, *rows = columns(self._cells(), left=3)
        return "\n".join([head, "-" * len(head), *rows, *self._notes()])

    def markdown(self) -> str:
        """Markdown: the table, its notes and all scores."""
        head, *body = [[as_text(cell) for cell in row] for row in self._cells()]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * 3 + "--:|" * (len(head) - 3)]
        lines += ["| " + " | ".join(row) + " |" for row in body]
        lines += ["", *(f"{as_text(note)}\n" for note in self._notes())]
        lines += ["<details><summary>All scores</summary>", "", "| " + " | ".join(_COLUMNS) + " |"]
        lines.append("|---" * len(_COLUMNS) + "|")
        for f in self.scores:
            row = {**f.as_row(), "value": f.text, "x100 +-": "" if f.deviation is None else f"{100 * f.deviation:.2f}"}
            lines.append("| " + " | ".join(as_text(row[name] or "") for name in _COLUMNS) + " |")
        return "\n".join([*lines, "", "</details>", ""])

    def json(self) -> str:
        """The report as JSON. For the same models and data only `seconds`, the last entry, differs."""
        averages = [self.average(m, g) for m in self.models for g in dict.fromkeys(t.group for t in self.tasks)]
        content = {
            "source": self.source,
            "tasks": [{"name": task.name, "group": task.group, "main": task.main} for task in self.tasks],
            "scores": [score.as_row() for score in self.scores],
            "averages": [score.as_row() for score in averages if score is not None],
            "fingerprints": self.fingerprints,
            "failures": self.failures,
            "seconds": {model: round(seconds, 3) for model, seconds in self.seconds.items()},
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def save(self, folder: str | Path) -> list[Path]:
        """Write `report.json` and `report.md`; return the paths.

        Raises:
            InputError: the files cannot be written; then nothing in the folder is changed.
        """
        return write_files(folder, {"report.json": self.json().encode(), "report.md": self.markdown().encode()})

    @classmethod
    def read(cls, path: str | Path) -> Report:
        """Read a report from a `report.json`.

        Raises:
            InputError: the file is not JSON. Other content that is not a report is an error with the file's name.
        """
        content = {"fingerprints": {}, **read_json(Path(path), dict)}  # which reports of before do not have
        with about(path):
            scores = [Score(**row) for row in content["scores" if "scores" in content else "figures"]]
            names = dict.fromkeys(score.task for score in scores)
            chosen = [_task(one["name"], one["group"], one["main"]) for one in content.get("tasks", ())]
            chosen = chosen or [_task_of_before(name, [f for f in scores if f.task == name]) for name in names]
            others = (dict(content[name]) for name in ("failures", "seconds", "fingerprints"))
            return cls(str(content["source"]), chosen, scores, *others)

    def _cells(self) -> list[list[str]]:
        rows = [["task", "metric", "n", *self.models]]
        for row in self.rows():
            some = next((f for f in row if f.value is not None), row[0])
            words = dict.fromkeys(w for w in (some.split, some.metric, some.aggregation) if w not in ("", "all"))
            rows.append([some.task, " ".join(words), str(some.n or ""), *(score.text for score in row)])
        return rows

    def _notes(self) -> list[str]:
        settings = dict.fromkeys((f.model, f.pooling, f.max_length) for f in self.scores if f.pooling)
        lines = [f"{m}: {p} pooling, {f'{k} tokens' if k else 'the default length'}" for m, p, k in settings]
        by_note: dict[str, list[str]] = {}
        for score in (f for row in self.rows() for f in row if f.note):
            if score.model not in self.failures:
                kind = NOT_RUN if score.value is None else "*"
                by_note.setdefault(f"{kind}: {score.note}", []).append(score.task)
        lines += [f"{model}: {NOT_RUN}: {why}" for model, why in self.failures.items()]
        lines += [f"{', '.join(dict.fromkeys(names))} {note}" for note, names in by_note.items()]
        return ["", "Correlations and scores from 0 to 1 are x100; data: " + self.source, *lines]


def _task(name: str, group: str, main: Sequence[str]) -> Task:
    """A task that was evaluated, without its data."""
    split, metric, aggregation = main
    return Task(name, group, lambda _: Splits({}), lambda parts, embed: [], (split, metric, aggregation), ".")


def _task_of_before(name: str, scores: Sequence[Score]) -> Task:
    """The task of a report of before, which has the scores alone: a set of papers only where they are its alone.

    (The user's own data have one split, and no aggregates. Those of a folder are as those of a set of NanoBEIR.)
    """
    task = tasks().get(name)
    of_user = all(score.split == "test" and score.aggregation.startswith(("all", "among")) for score in scores)
    if task is not None and not of_user:
        return task
    metric = next((f.metric for f in scores if f.metric == "spearman" or f.metric.startswith("mrr@")), None)
    if metric == "spearman":
        return _task(name, "similarity", ("test", metric, "all"))
    if metric:
        return _task(name, "retrieval", ("test", metric, "among"))
    return _task(name, "pairs", ("test", "average_precision", "all"))


# --- The scores as the Hub's `model-index` metadata, for the head of a model card.

_TYPES = {
    "sts": ("sentence-similarity", "Semantic Textual Similarity"),
    "pairs": ("sentence-similarity", "Paraphrase identification"),
    "similarity": ("sentence-similarity", "Semantic Textual Similarity"),
    "retrieval": ("sentence-similarity", "Retrieval"),
    "nanobeir": ("sentence-similarity", "Retrieval"),
}
_OTHER = ("text-classification", "Classification of frozen embeddings")


def model_index(
    report: Report, model: str, name: str | None = None, before: Iterable[JsonObject] = ()
) -> list[JsonObject]:
    """The `model-index` of one model: for each task a result with its main score. Tasks that were not run are left out.

    Args:
        report: a report of any number of models.
        model: the name of the model in the report.
        name: its name on the card; by default the same.
        before: the list that the card had; its scores stay, but those of the same data set, split and metric.

    Returns:
        The Hub's list, with one entry.
    """
    results, of_papers = [], [task.name for task in tasks().values() if task.group == "sts"]
    for task in report.tasks:
        score = report.main(model, task)
        if score.value is None or task.group == "space":
            continue
        kind, title = _TYPES.get(task.group, _OTHER)
        called = f"{task.name} (own data)" if task.group == "similarity" and task.name in of_papers else task.name
        dataset = {"type": called.lower(), "name": called, "split": score.split}
        how = f"{score.metric} x100, {score.aggregation}, {score.n} scored, {score.pooling} pooling"
        length = f", {score.max_length} tokens" if score.max_length else ""
        note = f" ({score.note})" if score.note else ""
        metric = {"type": score.metric, "value": round(100 * score.value, 2), "name": how + length + note}
        results.append({"task": {"type": kind, "name": title}, "dataset": dataset, "metrics": [metric]})
    new, others = {key for result in results for key in _scored(result)}, []
    for result in (result for entry in before for result in entry.get("results") or ()):
        metrics = [metric for key, metric in _scored(result).items() if key not in new]
        others += [{**result, "metrics": metrics}] if metrics else []
    return [{"name": name or model, "results": [*others, *results]}]


def write_metadata(report: Report, model: str, path: str | Path) -> None:
    """Write the scores into a model card's metadata; its text and its other metadata do not change.

    A score replaces that of the same data set, split and metric. Other scores and the name of the model stay.

    Args:
        report: a report of any number of models.
        model: the name of the model in the report.
        path: the model card.
    """
    head = read_head(Path(path))
    with about(path):
        before: list[JsonObject] = head.get("model-index") or []
        index = model_index(report, model, name=before[0].get("name") if before else None, before=before)
    with atomic_write(path, overwrite=True, through=False) as file:
        file.write_bytes(with_head(Path(path), head | {"model-index": index}))


def _scored(result: JsonObject) -> dict[tuple[object, ...], JsonObject]:
    """The metrics of a result by what they measure."""
    dataset = [result["dataset"].get(name) for name in ("type", "config", "split")]
    return {(*dataset, metric["type"], metric.get("config")): metric for metric in result["metrics"]}


_SPLITS = {"nanobeir": "train"}  # what mteb calls the one split of a set of NanoBEIR
_NAMES = {  # those that mteb calls otherwise
    "STSB": ("STSBenchmark", "mteb/stsbenchmark-sts"),
    "SICKR": ("SICK-R", "mteb/sickr-sts"),
    "NanoQuoraRetrieval": ("NanoQuoraRetrieval", "mteb/NanoQuoraRetrieval"),
    "NanoClimateFEVER": ("NanoClimateFeverRetrieval", "mteb/NanoClimateFeverRetrieval"),
}


def eval_results(report: Report, model: str) -> dict[str, bytes]:
    """The files of one model by their path in its folder: one a task that mteb has too, the STS sets and NanoBEIR.

    Values are x100. A task that was not run, or that lacks some of its pairs, has no file. The notes say what was
    computed and, for SentEval's files, that their sentences are tokenised, which mteb's are not.

    Args:
        report: a report of any number of models.
        model: the name of the model in the report.

    Returns:
        The content of each file by its path, such as `.eval_results/STS12.yaml`.

    Example:
        >>> from contrastive_st.evaluation.tasks import choose
        >>> score = Score("STS12", "test", "spearman", 0.72361, "all", 3108, model="m")
        >>> print(eval_results(Report("files", choose("STS12"), [score]), "m")[".eval_results/STS12.yaml"].decode())
        - dataset:
            id: mteb/sts12-sts
            task_id: STS12_default_test
            revision: null
          value: 72.361
          notes: 'contrastive-st: test spearman over 3108 pairs; SentEval''s files, tokenised'
        <BLANKLINE>
    """
    result = {}
    for task in report.tasks:
        score = report.main(model, task)
        if task.group in ("sts", "nanobeir") and score.value is not None and not score.note:
            name, dataset = task.name, f"mteb/{task.name.lower()}-sts"
            if task.group == "nanobeir":
                name, dataset = f"{name}Retrieval", f"mteb/{name}Retrieval"
            name, dataset = _NAMES.get(task.name, (name, dataset))
            entry = {
                "dataset": {
                    "id": dataset,
                    "task_id": f"{name}_default_{_SPLITS.get(task.group, score.split)}",
                    "revision": None,
                },
                "value": round(100 * score.value, 5),
                "notes": _notes(score, report.source),
            }
            result[f"{EVAL_RESULTS}/{name}.yaml"] = yaml.safe_dump([entry], sort_keys=False).encode()
    return result


def _notes(score: Score, source: str) -> str:
    unit = "queries" if score.metric.startswith("ndcg") else "pairs"
    what = f"contrastive-st: {score.split} {score.metric} over {score.n} {unit}"
    pooled = f", {score.pooling} pooling" if score.pooling else ""
    return what + pooled + ("; SentEval's files, tokenised" if source == "files" and unit == "pairs" else "")
