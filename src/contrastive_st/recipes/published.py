"""The tables that `compare` sets beside what it measures, and which of our figures stands in which column.

Source of both: J. Cai, "Quickthoughts" and "Learning Better Sentence Representations" (posts, 2019; one V100, GRU of
1000, BookCorpus of 68 million sentences, GloVe vectors). Pearson x100 for STS, accuracy for the rest.
"""

from __future__ import annotations

OBJECTIVE_COLUMNS = [
    "MR", "SUBJ", "CR", "MPQA", "STS12", "STS13", "STS14", "STS15", "STS16", "STSb", "SICKr",
]  # fmt: skip
CONTEXT_COLUMNS = ["MR", "SUBJ", "CR", "MPQA"]
SYSTEM_COLUMNS = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "MR", "CR", "SST2", "TREC", "MRPC"]
TASKS = "MR,SUBJ,CR,MPQA,STS12,STS13,STS14,STS15,STS16,STSB-supervised,SICKR-supervised,STSB,SST2,TREC,MRPC"
#: task, metric and aggregation of the figure in each column that is not the task's own name
FIGURE_OF: dict[str, tuple[str, str | None, str | None]] = {
    **{f"STS{year}": (f"STS{year}", "pearson", "mean") for year in range(12, 17)},
    "STS-B": ("STSB", "spearman", "all"),
    "STSb": ("STSB-supervised", "pearson", "all"),
    "SICKr": ("SICKR-supervised", "pearson", "all"),
}

_OBJECTIVES = {
    "next": (68.18, 88.45, 74.76, 79.95, 49.49, 35.85, 49.80, 55.05, 55.22, 72.11, 81.32),
    "counts": (64.02, 84.42, 70.44, 76.16, 26.89, 8.63, 17.28, 28.64, 19.97, 64.61, 75.48),
    "tfidf": (66.93, 85.89, 72.56, 75.52, 48.85, 41.50, 50.57, 59.95, 51.09, 68.53, 78.77),
    "tfidf_bin": (67.88, 86.85, 75.76, 78.91, 53.95, 49.40, 59.37, 67.16, 60.62, 65.08, 80.49),
}
OBJECTIVES = {name: dict(zip(OBJECTIVE_COLUMNS, row, strict=True)) for name, row in _OBJECTIVES.items()}

_CONTEXTS = {
    1: (76.71, 91.74, 83.95, 88.61),
    2: (77.11, 91.72, 83.84, 88.50),
    3: (76.54, 92.18, 83.34, 88.45),
    4: (76.46, 92.16, 82.76, 87.83),
}
CONTEXTS = {size: dict(zip(CONTEXT_COLUMNS, row, strict=True)) for size, row in _CONTEXTS.items()}
