"""Changes by clients over HTTP, with a second token, and labels by saved classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from contrastive_st.search.filters import as_filter
from contrastive_st.search.index import check_model
from contrastive_st.search.opening import writable
from contrastive_st.serve.limits import ApiError
from contrastive_st.serve.schemas import (
    Classified,
    ClassifyRequest,
    Deleted,
    DeleteRequest,
    Prediction,
    Upserted,
    UpsertRequest,
)
from contrastive_st.serve.served import IndexServed, Served
from contrastive_st.tokens import DOCUMENT, role_prompt

if TYPE_CHECKING:
    from contrastive_st.classification import SentenceClassifier

_Named = TypeVar("_Named")
WRITES = frozenset({"/upsert", "/delete"})  # the paths that need the token of writers


class ClassifierServed(NamedTuple):
    """A classifier behind `/classify`, and the model of its encoder."""

    classifier: SentenceClassifier
    model: Served


class Changes:
    """The routes that change an index, both idempotent by the ids of the documents, and that of classifiers.

    Args:
        indices: by name, each with an index and its model.
        classifiers: by name.
    """

    def __init__(self, indices: Mapping[str, IndexServed], classifiers: Mapping[str, ClassifierServed]) -> None:
        self.indices, self.classifiers = indices, classifiers

    async def upsert(self, asked: UpsertRequest) -> Upserted:
        """Add or replace documents."""
        name, served = named("index", self.indices, asked.index)
        index, model = writable(served.index, name), served.model
        check_model(index, model.encoder.fingerprint, f"index {name!r}")  # queries may be of another, which is mapped
        texts = [document.text for document in asked.documents]
        known = await run_in_threadpool(model.encoder.knows, texts)
        if not known.all():
            raise ApiError(422, f"the model knows no token of document {asked.documents[int(known.argmin())].id!r}")
        encoded = await model.vectors(texts, prompt=role_prompt(model.encoder.prompts, DOCUMENT))
        ids, metadata = ([getattr(document, field) for document in asked.documents] for field in ("id", "metadata"))
        states = await run_in_threadpool(index.upsert, ids, texts, encoded.vectors, metadata)
        return Upserted(index=name, **states)

    async def delete(self, asked: DeleteRequest) -> Deleted:
        """Delete documents by their ids or by a filter."""
        name, served = named("index", self.indices, asked.index)
        index = writable(served.index, name)
        conditions = as_filter(asked.model_dump(by_alias=True, exclude_unset=True).get("filter"))
        if (asked.ids is None) == (not conditions):
            raise ApiError(422, "give ids or a filter, one of them")
        if asked.ids is None:
            return Deleted(index=name, deleted=await run_in_threadpool(index.delete_matching, conditions))
        return Deleted(index=name, deleted=await run_in_threadpool(index.delete, asked.ids))

    async def classify(self, asked: ClassifyRequest, response: Response) -> Classified:
        """The labels of texts, and what the classifier gives each class."""
        name, (classifier, model) = named("classifier", self.classifiers, asked.classifier)
        encoded = await model.vectors(asked.inputs)
        response.headers.update(encoded.headers)
        head, classes = classifier.head_, list(map(str, classifier.classes_))
        logits = head.logits(encoded.vectors)
        scores = logits if classifier.head == "means" else head.probabilities(logits)
        return Classified(classifier=name, predictions=[
            Prediction(labels=[classes[k] for k in chosen.nonzero()[0]], scores=dict(zip(classes, row, strict=True)))
            for chosen, row in zip(head.chosen(logits), scores.tolist(), strict=True)
        ])  # fmt: skip


def named(what: str, known: Mapping[str, _Named], name: str | None) -> tuple[str, _Named]:
    """The one of a name, or the first.

    Args:
        what: what it is the name of, for the message.
        known: the known ones.
        name: a name; None takes the first.

    Returns:
        The name, and what has it.

    Raises:
        ApiError: 404, there is none.
    """
    if not known:
        raise ApiError(404, f"no {what} is served; start the server with --{what}")
    name = next(iter(known)) if name is None else name
    if name not in known:
        raise ApiError(404, f"there is no {what} {name!r}; there is {', '.join(known)}")
    return name, known[name]
