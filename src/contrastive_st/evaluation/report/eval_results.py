"""Scores as the Hub's `.eval_results/*.yaml`, which model pages and leaderboards show and mteb 2 writes too.

The format: https://huggingface.co/docs/hub/eval-results. Task ids are those of mteb.
"""

from __future__ import annotations

import yaml

from contrastive_st.evaluation.report.report import Report
from contrastive_st.evaluation.scorers import Score

FOLDER = ".eval_results"
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
            result[f"{FOLDER}/{name}.yaml"] = yaml.safe_dump([entry], sort_keys=False).encode()
    return result


def _notes(score: Score, source: str) -> str:
    unit = "queries" if score.metric.startswith("ndcg") else "pairs"
    what = f"contrastive-st: {score.split} {score.metric} over {score.n} {unit}"
    pooled = f", {score.pooling} pooling" if score.pooling else ""
    return what + pooled + ("; SentEval's files, tokenised" if source == "files" and unit == "pairs" else "")
