"""Complete jobs, from arguments to a reported checkpoint, with their built-in data and evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__all__ = [
    "DocsSearch",
    "find_families",
    "label_accuracy",
    "labelled_docs",
    "make_families",
    "mean_over_frames",
    "package_task",
    "small_bert",
    "split_by_first",
    "triplets_of",
    "write_docs_corpus",
]
__getattr__, __dir__ = lazy(
    __name__,
    {
        "docs_search": ["DocsSearch", "labelled_docs", "package_task", "triplets_of", "write_docs_corpus"],
        "job": ["label_accuracy", "small_bert", "split_by_first"],
        "sequences_job": ["find_families", "make_families", "mean_over_frames"],
    },
)

if TYPE_CHECKING:
    from contrastive_st.jobs.docs_search import DocsSearch, labelled_docs, package_task, triplets_of, write_docs_corpus
    from contrastive_st.jobs.job import label_accuracy, small_bert, split_by_first
    from contrastive_st.jobs.sequences_job import find_families, make_families, mean_over_frames
