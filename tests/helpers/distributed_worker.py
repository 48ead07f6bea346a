"""Runs in each of W gloo processes: gradients and trained weights of one grid of cases, which rank 0 returns.

With CONTRASTIVE_ST_TEST_DEVICE the first cases of the grid run there, all processes on one GPU.
"""

import contextlib
import itertools
import os

import torch
import torch.distributed as dist
from plain import in_double
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, Qwen3Config

from contrastive_st.distributed import add_gradients, default_gather
from contrastive_st.losses import MatryoshkaLoss, ReconstructionLoss, TargetsLoss
from contrastive_st.losses.targets import BAGS
from contrastive_st.models import (
    BertForCL,
    EncoderForCL,
    InferSentBiLSTM,
    InferSentConfig,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    Qwen3ForCL,
    SkipThoughts,
    SkipThoughtsConfig,
    StaticConfig,
    StaticEncoder,
    UniversalConfig,
    UniversalSentenceEncoder,
)
from contrastive_st.models.base import text_hashes
from contrastive_st.tokens import name_number
from contrastive_st.training.gradcache import Chunks, gradcache_step, sparse_look_ups
from contrastive_st.training.trainer import PlanningCollator

ROWS, LENGTH = 10, 9
DEVICE = os.environ.get("CONTRASTIVE_ST_TEST_DEVICE", "cpu")
TASKS = {
    "neighbours": {"loss": "targets", "targets": "next"}, "answers": {"loss": "info_nce"}, "nli": {"loss": "softmax"},
}  # fmt: skip
NCE = ("info_nce", "consistent_info_nce", "document_info_nce")
UNIVERSAL = UniversalConfig(60, embedding_size=6, hidden_size=8, bigram_buckets=30)


def bert(num_views, **settings):
    def make(dropout):
        config = BertConfig(
            vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        )  # fmt: skip
        weight = {} if settings.get("loss", "info_nce") not in NCE else {"hard_negative_weight": 0.2}
        return BertForCL(config, **weight, **settings)

    return num_views, make


def cut_bert(kind):
    """Cutoff beside dropout, and none where there is none: it is drawn as dropout is."""
    return 2, lambda dropout: bert(2, loss="consistent_info_nce", js_weight=1.0, cutoff=kind, cutoff_ratio=3 * dropout)[
        1
    ](dropout)


def towers(encoder="gru", count=2, **settings):
    def make(dropout):
        shape = {"vocab_size": 60, "embedding_size": 6, "hidden_size": 8, "num_attention_heads": 2}
        return QuickThoughtsGRU(
            QuickThoughtsConfig(**shape, encoder=encoder, towers=count, dropout=dropout), **settings
        )

    return 1, make


def decoder(**settings):
    def make(dropout):
        config = Qwen3Config(
            vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            head_dim=8, intermediate_size=32, attention_dropout=dropout,
        )  # fmt: skip
        return in_double(Qwen3ForCL(config, **settings))

    return 2, make


def in_cuts(num_views, make):
    """Matryoshka over a method's loss."""

    def make_cut(dropout):
        model = make(dropout)
        model.change_settings(loss=MatryoshkaLoss(model.settings.loss, (6, 3), (1.0, 0.5)))
        model.add_head()
        return model

    return num_views, make_cut


def margin(views, text_hashes):
    """A user's loss, which knows nothing of processes."""
    a, p = nn.functional.normalize(views[:, :2], dim=-1).unbind(1)
    scores = a @ p.T
    other = text_hashes[:, :1] != text_hashes[:, 0]
    return ((scores - scores.diagonal()[:, None] + 0.3).relu() * other).mean()


class Regression(nn.Module):
    """A user's loss with weights and a target a row."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, views, targets):
        own = (views[:, 0] * views[:, 1]).sum(-1) * self.scale
        return (own[:, None] - targets).square().mean()  # every pair with the target of every row


def local_mean(views, targets=None, *, gather):
    """A user's loss that asks for the processes."""
    return gather.mean((views[:, 0] - views[:, 1]).square().sum(), len(views))


class Bag(nn.Module):
    """A user's encoder."""

    def __init__(self):
        super().__init__()
        self.words, self.output = nn.Embedding(60, 8), nn.Linear(8, 6)

    def forward(self, input_ids, attention_mask):
        states = self.words(input_ids) * attention_mask[..., None]
        return self.output(states.sum(1) / attention_mask.sum(1, keepdim=True))


def of_user(loss):
    def make(dropout):
        model = bert(2)[1](dropout)
        model.use_loss(loss() if isinstance(loss, type) else loss)
        return model

    return 2, make


# Every loss, each with the number of views of its rows and what makes its model
METHODS = {
    "info_nce-V2": bert(2),
    "info_nce-V3": bert(3),
    "symmetric-V2": bert(2, symmetric=True),
    "symmetric-V3": bert(3, symmetric=True),
    "window-one_tower": bert(1, loss="targets", targets="window", context_size=2),
    "next-kl": towers(targets="next"),
    "window-smoothed": towers("lstm", targets="window", context_size=2, label_smoothing=0.1),
    "window-block": towers(targets="window", row_loss="block", context_size=2),
    "window-pairwise": towers(targets="window", row_loss="pairwise", surrogate="hinge"),
    "counts-kl": towers(targets="counts"),
    "counts-reconstruction": towers(loss=ReconstructionLoss(TargetsLoss("next"), vocab_size=60, weight=0.7)),
    "skip_thoughts": (
        1,
        lambda dropout: SkipThoughts(SkipThoughtsConfig(vocab_size=60, embedding_size=6, hidden_size=8)),
    ),
    "tsdae": bert(1, loss="tsdae", pooling="mean"),
    "counts-l2": towers(targets="counts", row_loss="l2"),
    "tfidf-cross_entropy": towers(targets="tfidf", row_loss="cross_entropy", target_temperature=0.2),
    "tfidf_bin-kl": towers("transformer", targets="tfidf_bin"),
    "next-cosine": towers("mean", targets="next", scores="cosine", temperature=0.2, own_document="mask"),
    "window-one_mean_tower": towers("mean", 1, targets="window", scores="cosine", own_document="mask"),
    "window-block-mask": towers(targets="window", row_loss="block", own_document="mask"),
    "counts-cosine": towers(targets="counts", scores="cosine", own_document="mask"),
    "tfidf-dot-mask": towers(targets="tfidf", target_temperature=0.2, own_document="mask"),
    "tfidf_bin-cosine": towers("lstm", targets="tfidf_bin", scores="cosine", own_document="mask"),
    "classification-sbert": bert(2, loss="softmax", pooling="mean"),
    "classification-infersent": bert(2, loss="softmax", features=("u", "v", "abs(u-v)", "u*v"), head_hidden=7),
    "regression": bert(2, loss="cosine_similarity", pooling="max"),
    "triplet": bert(3, loss="triplet"),
    "cosent": bert(2, loss="cosent", pooling="mean"),
    "angle": bert(2, loss="angle"),
    "candidates-margin_mse": bert(4, loss="margin_mse", pooling="mean"),
    "candidates-kl": bert(4, loss="kl_distillation", pooling="mean", temperature=0.3),
    "candidates-kl_in_batch": bert(4, loss="kl_distillation", in_batch_negatives=True, temperature=0.3),
    "candidates-info_nce": bert(4, pooling="max"),
    "guided-V2": bert(2, loss="guided_info_nce", margin=0.1, contrast_anchors=True, contrast_positives=True),
    "guided-V3": bert(3, loss="guided_info_nce", margin=0.05, margin_strategy="relative", symmetric=True),
    "documents-V2": bert(2, loss="document_info_nce", pooling="mean"),
    "documents-V3": bert(3, loss="document_info_nce", symmetric=True),
    "consistent": bert(3, loss="consistent_info_nce", js_weight=0.7),
    "prompted": bert(3, pooling="mean", include_prompt=False),
    "token_cutoff": cut_bert("token"),
    "span_cutoff": cut_bert("span"),
    "feature_cutoff": cut_bert("feature"),
    "mlm": bert(2, do_mlm=True, mlm_weight=0.3),
    "decoder-last": decoder(),
    "decoder-bidirectional": decoder(bidirectional=True, pooling="mean", symmetric=True),
    "multi_task": bert(2, loss="multi_task", tasks=TASKS),
    "mixture": bert(2, loss="mixture", tasks=TASKS),
    "classification-bilstm": (2, lambda dropout: InferSentBiLSTM(InferSentConfig(60, 6, 4))),
    "multi_task-dan": (2, lambda dropout: UniversalSentenceEncoder(UNIVERSAL, loss="multi_task", tasks=TASKS)),
    "relational-distances_and_angles": bert(1, loss="relational_distillation"),
    "relational-similarities": towers(
        loss="relational_distillation", similarity_weight=1.0, distance_weight=0, angle_weight=0
    ),
    "embeddings": bert(1, loss="embedding_distillation", pooling="mean"),
    "embeddings-static": (1, lambda dropout: StaticEncoder(StaticConfig(60, 16), loss="embedding_distillation")),
    "user-margin": of_user(margin),
    "user-local_mean": of_user(local_mean),
    "user_regression": of_user(Regression),
    "user-encoder": (2, lambda dropout: EncoderForCL(Bag())),
    "user-encoder_and_loss": (2, lambda dropout: EncoderForCL(Bag(), margin)),
    "user_regression-encoder": (2, lambda dropout: EncoderForCL(Bag(), Regression())),
    "static-info_nce": (2, lambda dropout: StaticEncoder(StaticConfig(60, 6))),
}
CUT = ("token_cutoff", "span_cutoff", "feature_cutoff")
#: Its loop is the same for every loss: one of each kind of rows, of targets and of heads
IN_CUTS = (
    "info_nce-V3", "symmetric-V2", "window-one_tower", "classification-infersent", "regression", "triplet",
    "candidates-kl_in_batch", "guided-V3", "documents-V2", "mlm", "decoder-last", "multi_task", "mixture",
    "multi_task-dan", "relational-distances_and_angles", "embeddings-static", "user_regression-encoder",
)  # fmt: skip
METHODS |= {f"{name}-matryoshka": in_cuts(*METHODS[name]) for name in IN_CUTS}
# once is enough
ONCE = (
    "decoder", "mlm", "classification", "regression", "triplet", "candidates", "cosent", "angle", "multi_task",
    "mixture", "prompted", "static", "user", "documents-V3",
)  # fmt: skip
#: A row for each model. Chunks, buckets and dropout masks are a matter of the model, which meets each of them alone
#: and together; to a loss they are views and gradients of views, so the others meet all at once
EVERY_WAY = (
    "info_nce-V3", "next-kl", "skip_thoughts", "tsdae", "window-smoothed", "tfidf_bin-kl", "window-one_mean_tower",
    "prompted", "mlm", "decoder-last", "decoder-bidirectional", "classification-bilstm", "multi_task-dan",
    "user_regression-encoder", "static-info_nce",
)  # fmt: skip
#: Weights of each kind: of transformers, a decoder's, tables of words, packed rows, sparse gradients, a loss's own
TWO_STEPS = (
    "info_nce-V3", "tsdae", "next-kl", "classification-bilstm", "static-info_nce", "user_regression-encoder",
)  # fmt: skip
#: In float32 too: a head, a tower, a guide and a mask of each kind, which must not lose digits
SINGLE = (*EVERY_WAY, "guided-V3", "documents-V2", "tfidf-dot-mask", "relational-distances_and_angles")
GRID = [
    case
    for case in itertools.product(METHODS, (torch.float64, torch.float32), (0.0, 0.1))
    if case[2] == 0.0 or METHODS[case[0]][0] > 1  # masks are drawn a chunk at a time: towers draw them in one
    if not (case[0].startswith(ONCE) or case[0].endswith("matryoshka")) or case[1:] == (torch.float64, 0.0)
    if case[0] not in CUT or case[1:] == (torch.float64, 0.1)
    if case[0] in EVERY_WAY or case[0] in CUT or case[2] == 0.0
    if case[1] == torch.float64 or (case[2] == 0.0 and case[0] in SINGLE)
]
SHORT = [case for case in GRID if case[1:] == (torch.float64, 0.0) and not case[0].endswith("matryoshka")]


def ways(case, world=1):
    """The ways of a case, as (cached, rows).

    With dropout, rows in one product have other masks than buckets. What chunks and rows do together is a matter of
    one process; two meet each way of a backward pass.
    """
    method, dtype, dropout = case
    every = (method in EVERY_WAY and dtype == torch.float64) or method in CUT
    some = ((False, "padded"), (True, "packed"))
    found = itertools.product((False, True), ("padded", "bucketed", "packed")) if every else some
    other = {(False, "padded"), (False, "packed"), (True, "packed")} if dropout else set()
    alone = {(False, "packed"), (True, "padded"), *([] if dropout else [(True, "bucketed")])} if world > 1 else set()
    return [way for way in found if way not in other | alone]


def steps_of(method):
    """One for each kind of targets; a second one tells what a step leaves to the next, which no loss does."""
    if method.startswith(("multi_task", "mixture")):
        return len(TASKS)
    return 2 if method in TWO_STEPS else 1


def batches(method, steps):
    """So many batches, which begin anew after those of each kind of targets."""
    generator = torch.Generator().manual_seed(3)
    num_views, kind = METHODS[method][0], method.partition("-")[0]
    for step in range(steps):
        ids = torch.randint(5, 60, (ROWS, num_views, LENGTH), generator=generator)
        lengths = torch.randint(2, LENGTH + 1, (ROWS, num_views, 1), generator=generator)
        mask = (torch.arange(LENGTH) < lengths).long()
        ids[7] = ids[1]  # the same texts in two places, on two ranks
        mask[7] = mask[1]
        batch = {"input_ids": ids * mask, "attention_mask": mask}
        places = torch.tensor([[i // 7, i] for i in range(ROWS)])  # a document that both ranks have a part of
        if kind in ("classification", "regression", "multi_task", "mixture"):
            labels = torch.randint(0, 3, (ROWS,), generator=generator)
            own = [places, torch.zeros(ROWS, 0, dtype=torch.long), labels[:, None]][step % 3]
            tasks = torch.cat([torch.full((ROWS, 1), name_number(list(TASKS)[step % 3])), own], 1)
            scores = torch.rand(ROWS, generator=generator)
            found = {"classification": labels, "regression": scores, "multi_task": tasks, "mixture": tasks}
            batch["targets"] = found[kind]
        if kind in ("cosent", "angle", "user_regression"):
            batch["targets"] = torch.randint(0, 4, (ROWS,), generator=generator) / 3  # some are equal
        if kind == "prompted":
            batch["text_mask"] = mask * (torch.arange(LENGTH) >= torch.tensor([[1], [0], [1]]))
        if kind == "mlm":
            chosen = (torch.rand(ids.shape, generator=generator) < 0.3) & (mask == 1)
            batch["mlm_input_ids"] = batch["input_ids"].masked_fill(chosen, 4)
            batch["mlm_targets"] = ids.masked_fill(~chosen, -100)
        if kind == "candidates":  # some rows have one negative less
            there = torch.arange(num_views) < 3 + torch.arange(ROWS)[:, None] % (num_views - 2)
            there[7] = there[1]
            batch["input_ids"], batch["attention_mask"] = (x * there[..., None] for x in (ids * mask, mask))
            scores = torch.randn(ROWS, num_views - 1, generator=generator)
            batch["targets"] = scores.masked_fill(~there[:, 1:], float("nan"))
        if kind == "guided":
            guide = torch.randn(ROWS, num_views, 5, generator=generator)
            guide[7], guide[5, 1] = guide[1], guide[2, 1]  # the same texts, and others that the guide cannot tell apart
            batch["targets"] = guide
        if kind == "documents":
            batch["targets"] = torch.arange(ROWS) // 3  # one of them on both ranks
        if num_views == 1:
            words = torch.randint(0, 12, (ROWS, 4), generator=generator)
            weights = torch.rand(ROWS, 4, generator=generator).where(
                torch.arange(4) < 4 - torch.tensor([[i // 6] for i in range(ROWS)]), 0
            )
            teachers = {"relational": weights, "embeddings": weights.repeat(1, 4)}
            bags = torch.cat([places[:, None], torch.stack([words, weights], -1)], 1)
            batch["targets"] = bags if kind in BAGS else teachers.get(kind, places)
            if kind == "tsdae":  # the whole sentences; the rows are parts of them
                whole = torch.cat([batch["input_ids"][:, 0], torch.randint(5, 60, (ROWS, 3), generator=generator)], 1)
                padding = torch.arange(LENGTH + 3) > lengths[:, 0] + 2
                batch["targets"] = whole.masked_fill(whole == 0, 7).masked_fill(padding, -100)
        yield batch


def share(batch, rank, world):
    """Uneven shares: rank 0 has one row more than half."""
    cut = [0, ROWS] if world == 1 else [0, ROWS // 2 + 1, ROWS]
    own = {name: tensor[cut[rank] : cut[rank + 1]] for name, tensor in batch.items()}
    targets = own.get("targets")
    if targets is not None and targets.dim() == 3 and targets.shape[-1] == 2:  # a collator pads bags to its widest row
        own["targets"] = targets[:, : 1 + int((targets[:, 1:, 1] > 0).sum(1).max())]
    return own


def count_and_reduce(state, bucket):
    """What the trainer's DDP does with a bucket of gradients, counted."""
    tables, reductions = state
    reductions.append(bucket.index())
    return add_gradients(tables, bucket)


def train(case, cached, rows, rank, world):
    """Gradients of the first step and the weights after the last."""
    method, dtype, dropout = case
    _, make = METHODS[method]
    torch.manual_seed(0)
    core = make(dropout).to(DEVICE, dtype).train()
    core.length_bucketing, core.unpadded = rows != "padded", rows == "packed"
    core.bucket_options = {"max_rows": 3}  # the chunks of the GradCache step, so that both draw the same dropout masks
    options = {"broadcast_buffers": False, "gradient_as_bucket_view": True}  # the latter as in ContrastiveTrainer
    model = DistributedDataParallel(core, **options) if world > 1 else core
    reductions = []
    if world > 1:
        tables = {id(module.weight) for module in core.modules() if isinstance(module, nn.Embedding)}
        model.register_comm_hook((tables, reductions), count_and_reduce)
    optimizer = torch.optim.AdamW(core.parameters(), lr=1e-3)
    torch.manual_seed(10 + rank)
    losses, first = [], None
    for whole in batches(method, steps_of(method)):
        batch = share(whole, rank, world)
        if rows != "padded":  # as the trainer does: the host knows what decides shapes
            batch = PlanningCollator(dict, core.settings.loss)(batch)
        batch = {name: x.to(DEVICE) if isinstance(x, torch.Tensor) else x for name, x in batch.items()}
        optimizer.zero_grad()
        if cached:
            hashes = text_hashes(batch["input_ids"], batch["attention_mask"], batch.get("text_mask"))
            targets, task = batch.pop("targets", None), batch.pop("task", None)
            no_sync = unsynced(model, core)
            words = core.words_of({**batch, "targets": targets})
            loss, _ = gradcache_step(
                {name: x for name, x in batch.items() if not name.startswith(("mlm", "predicted"))},
                lambda **chunk: model(**chunk).pooler_output,
                lambda views, hashes=hashes, targets=targets, task=task: core.compute_loss(
                    core.split_views(views), targets, hashes, task=task
                ),
                lambda scalar: scalar.backward(),
                no_sync,
                Chunks(3, most=core.positions),
                parameters=core.head_parameters(),
                words=words and words.parts(default_gather()),
            )
        else:
            loss = model(**batch).loss
            loss.backward()
            loss = loss.detach()
        if world > 1:
            dist.all_reduce(loss)
            loss /= world
        losses.append(loss)
        first = first or {name: p.grad.clone() for name, p in core.named_parameters() if p.grad is not None}
        optimizer.step()
    return {
        "losses": torch.stack(losses).cpu(),
        "gradients": {name: gradient.cpu() for name, gradient in first.items()},
        "weights": {name: weight.cpu() for name, weight in core.state_dict().items()},
        "reductions": len(reductions),
    }


def unsynced(model, core):
    """The context of a chunk that is not the last one, as in `ContrastiveTrainer`."""

    @contextlib.contextmanager
    def no_sync():
        with model.no_sync() if model is not core else contextlib.nullcontext(), sparse_look_ups(core):
            yield

    return no_sync


def main(world):
    rank = int(os.environ.get("RANK", 0))
    if world > 1:
        dist.init_process_group("gloo")
    results = {}
    grid = SHORT if "CONTRASTIVE_ST_TEST_DEVICE" in os.environ else GRID
    for case in (case for case in grid if world == 1 or case[1] == torch.float64):
        for cached, rows in ways(case, world):
            results[(*case, cached, rows)] = train(case, cached, rows, rank, world)
    return results if rank == 0 else None
