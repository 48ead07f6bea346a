"""The recipes of CONTRIBUTING.md, followed to the letter."""

import inspect
import types
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import distributed_worker
import numpy as np
import torch
from ranks import relative_error
from starlette.testclient import TestClient
from torch.nn.functional import normalize

from contrastive_st import Loss
from contrastive_st.evaluation import tasks as tasks_module
from contrastive_st.evaluation.datasets.senteval import Splits, pair_rows
from contrastive_st.evaluation.scorers.sts import score_splits
from contrastive_st.evaluation.tasks import Task, choose
from contrastive_st.losses import LOCAL, LOSSES
from contrastive_st.models.poolings import POOLINGS, Pooling
from contrastive_st.models.protocol import open_encoder
from contrastive_st.options import NotNegative
from contrastive_st.scripts.arguments import loss_arguments
from contrastive_st.serve import api
from contrastive_st.serve.served import Served
from models import test_loaders


def test_a_pooling_that_sentence_transformers_lacks(bert_config, tokenizer, tmp_path, monkeypatch):
    least = lambda states, mask: states.masked_fill(mask.unsqueeze(-1) == 0, torch.inf).amin(1)
    monkeypatch.setitem(POOLINGS, "min", Pooling(least))
    for pooling in ("min", "mean"):
        test_loaders.test_every_loader_gives_the_same_embeddings(
            bert_config, tokenizer, tmp_path / pooling, pooling, mlp_only_train=False
        )


def test_a_loss(monkeypatch):
    @dataclass(frozen=True)
    class Pull(Loss):
        """Pulls the two texts of a pair together.

        Args:
            power: of the distance.
        """

        name: ClassVar[str] = "pull"
        trains: ClassVar[tuple[str, ...]] = ("pairs",)
        power: NotNegative = 2.0

        def __call__(self, views, targets=None, *, text_hashes=None, gather=LOCAL):
            first, second = normalize(views, dim=-1).unbind(1)
            return gather.mean(((first - second).square().sum(-1) ** (self.power / 2)).sum(), len(views))

    monkeypatch.setitem(distributed_worker.METHODS, "pull", distributed_worker.bert(2, loss="pull"))
    case = ("pull", torch.float64, 0.0)
    try:
        assert "power" in {option.name for option in loss_arguments(["pull"]).__dataclass_fields__.values()}
        plain, cached = (distributed_worker.train(case, *way, 0, 1) for way in ((False, "padded"), (True, "packed")))
    finally:
        del LOSSES["pull"]
    assert relative_error(cached["gradients"], plain["gradients"]) < 1e-9
    assert relative_error(cached["weights"], plain["weights"]) < 1e-9


def test_an_evaluation_task(tmp_path, monkeypatch):
    def read(root):
        rows = [line.split("\t") for line in (root / "TOY" / "pairs.tsv").read_text().splitlines()]
        return Splits({"test": pair_rows([(a, b) for a, b, _ in rows], [float(score) for *_, score in rows])}, {})

    toy = Task(
        "TOY", "toys", read, partial(score_splits, task="TOY", names=("test",)), ("test", "spearman", "all"), "TOY"
    )
    listed = tasks_module.tasks
    monkeypatch.setattr(tasks_module, "tasks", lambda folds=10: {**listed(folds), "TOY": toy})
    (tmp_path / "TOY").mkdir()
    (tmp_path / "TOY" / "pairs.tsv").write_text("a\tb\t5\na\tc\t0\nb\tc\t1")
    vectors = {"a": [1.0, 0.0], "b": [1.0, 0.1], "c": [0.0, 1.0]}
    for name in ("TOY", "toys"):
        (task,) = choose(name)
        scores = task.score(task.load(tmp_path), lambda texts: np.array([vectors[text] for text in texts]))
        assert [score.text for score in scores if task.is_main(score)] == ["100.00"]


def test_a_route():
    source = inspect.getsource(api)
    for before, added in (
        (
            "    async def health(self)",
            "    async def count(self, text: str): return {'letters': len(text)}\n\n",
        ),
        (
            '("POST", "/classify", routes.classify, schemas.Classified),',
            '("GET", "/count", routes.count, dict[str, int]), ',
        ),
    ):
        assert source.count(before) == 1
        source = source.replace(before, added + before)
    changed = types.ModuleType("changed_api")
    exec(compile(source, "changed_api", "exec"), changed.__dict__)
    app = changed.make_api({"m": Served(open_encoder())}, token="secret")
    with TestClient(app, base_url="http://localhost", headers={"Authorization": "Bearer secret"}) as client:
        assert client.get("/count", params={"text": "tide"}).json() == {"letters": 4}
        assert client.get("/count").status_code == 422
        assert client.get("/count", headers={"Authorization": "Bearer no"}).status_code == 401
        assert client.get("/openapi.json").json()["paths"]["/count"]["get"]["responses"]["401"]
        assert 'route="/count"' in client.get("/metrics").text
