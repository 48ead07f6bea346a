"""The laws of training, for one combination of choices: each is a run of a few steps of a tiny model.

    a  k processes train the weights that one process trains, in whatever way it encodes
    b  validation, evaluators, logging and saving change no weight
    c  a resumed run trains the weights of one that was not interrupted
    d  what was saved is what is opened, here and in sentence-transformers
    e  what is recorded is what was done, and a kept checkpoint has the metric for which it was kept

A combination that cannot be is refused in one line, before the first step (`REFUSED`).
"""

import json
import os
import random
import sys
from pathlib import Path

import numpy as np
from ranks import together
from small_checkpoints import tiny_bert
from transformers import TrainingArguments

#: The first value of each axis is its default. A loss stands for its rows and collator, and for its model if that is
#: none of transformers
AXES = {
    "processes": ("1", "2", "3"),
    "loss": (
        "info_nce", "symmetric", "texts", "mlm", "cosine_similarity", "cosent", "angle", "softmax", "triplet",
        "margin_mse", "kl_distillation", "guided_info_nce", "consistent_info_nce", "document_info_nce",
        "embedding_distillation", "relational_distillation", "tsdae", "mixture", "multi_task", "of_user",
        "targets", "reconstruction", "skip_thoughts", "own_encoder", "static",
    ),
    "way": ("packed", "padded", "buckets", "chunks"),
    "base": ("float32", "bfloat16", "float16"),
    "adapter": ("full", "lora", "dora", "lora_tokens", "lora_unsaved"),
    "feed": ("rows", "stream"),
    "step": ("plain", "checkpointed", "bf16", "compiled"),
    "sharded": ("no", "yes"),
    "validation": ("none", "rows", "split", "scored"),
    "evaluator": ("none", "ours", "sentence_transformers"),
    "keep": ("last", "best", "early_stopping"),
    "resume": ("none", "1", "3", "workers"),  # at a step, or at the second with another number of workers
    "accumulation": ("1", "2"),
    "matryoshka": ("no", "yes"),
    "dropout": ("0", "0.1"),
    "queue": ("no", "yes"),
    "batch": ("given", "halved"),
}  # fmt: skip
DEFAULT = {name: values[0] for name, values in AXES.items()}
#: Further values of `feed`, each for some losses and not drawn: corpora that stay on disk, with their order; and
#: `neighbors` (pairs from documents), `parts` (a mixture of a stream and rows)
CORPORA = {"runs": {"run_length": 2}, "shuffled": {"shuffle_buffer": 1024}}
TOWERS = ("targets", "reconstruction", "skip_thoughts")
NOT_OF_TRANSFORMERS = (*TOWERS, "own_encoder", "static")
QUEUED = ("info_nce", "texts", "mlm", "guided_info_nce", "consistent_info_nce", "own_encoder", "static")
DRAWN = ("mlm", "tsdae")  # masks and deletions are drawn for a batch of a process
HEADS = ("mlm", "softmax", "tsdae", "multi_task", "reconstruction", "skip_thoughts")
UNMEASURED = ("texts", "mlm")
#: Conditions on a combination, and what the line that refuses it must name
REFUSED = {
    "pairs by dropout, without dropout": (
        lambda c: c["loss"] in ("texts", "mlm") and c["dropout"] == "0", "--dropout",
    ),
    "a best checkpoint without an evaluation": (
        lambda c: c["keep"] != "last" and c["validation"] == c["evaluator"] == "none", "validation",
    ),
    "a best checkpoint by an evaluator that does not name its metric": (
        lambda c: c["keep"] != "last" and c["validation"] == "none" and c["evaluator"] == "sentence_transformers",
        "metric_for_best_model",
    ),
    "validation of rows that have no metric": (
        lambda c: c["validation"] in ("rows", "split") and c["loss"] in UNMEASURED, "validation",
    ),
    "packed rows of another model": (
        lambda c: c["way"] == "packed" and c["loss"] in NOT_OF_TRANSFORMERS, "unpadded",
    ),
    "packed rows of a compiled model": (lambda c: c["way"] == "packed" and c["step"] == "compiled", "unpadded"),
    "a compiled model of another kind": (
        lambda c: c["step"] == "compiled" and c["loss"] in NOT_OF_TRANSFORMERS, "torch_compile",
    ),
    "activations of another model computed again": (
        lambda c: c["step"] == "checkpointed" and c["loss"] in NOT_OF_TRANSFORMERS, "checkpointing",
    ),
    "sharding without GPUs": (lambda c: c["sharded"] == "yes" and c["processes"] == "1", "FSDP"),
    "a sharded encoder of the user": (lambda c: c["sharded"] == "yes" and c["loss"] == "own_encoder", "FSDP"),
    "a sharded head of a loss": (lambda c: c["sharded"] == "yes" and c["loss"] in HEADS, "FSDP"),
    "a sharded model with a queue": (lambda c: c["sharded"] == "yes" and c["queue"] == "yes", "momentum_queue"),
    "sharded again with shards that are empty": (
        lambda c: c["sharded"] == "yes" and c["batch"] == "halved" and c["processes"] == "3"
        and c["adapter"] not in ("full", "lora_unsaved"), "auto_find_batch_size",
    ),
    "an adapter on tokens that were not saved": (
        lambda c: c["adapter"] == "lora_unsaved" and c["loss"] not in NOT_OF_TRANSFORMERS,
        "in memory",
    ),
    "an adapter of another model": (lambda c: c["adapter"] != "full" and c["loss"] in NOT_OF_TRANSFORMERS, "LoRA"),
    "a queue for another loss": (
        lambda c: c["queue"] == "yes" and c["loss"] not in QUEUED, "momentum_queue",
    ),
    "Matryoshka of a loss of words": (lambda c: c["matryoshka"] == "yes" and c["loss"] == "tsdae", "loss of words"),
    "Matryoshka of two towers": (lambda c: c["matryoshka"] == "yes" and c["loss"] in TOWERS, "matryoshka"),
}  # fmt: skip
WORDS = [f"word{i}" for i in range(40)]
BATCH, STEPS = 12, 4
#: Two epochs of four steps: of two batches each, or of one and a half, with two batches accumulated in a step
ROWS = {"1": 30, "2": 42}
HELD_OUT = 14
TEXTS = ["word1 word2", "word3 word4 word5 word6 word7 word8", "word1", "word3 added word9", "Word7 WORD8"]


CHECKPOINTING = (
    "activation_checkpointing" if hasattr(TrainingArguments, "activation_checkpointing") else "gradient_checkpointing"
)


#: Run besides those that are drawn, which leave out a queue with Matryoshka
BESIDES = (
    "processes=2 matryoshka=yes queue=yes resume=1",
    "processes=3 loss=guided_info_nce way=chunks adapter=lora validation=rows matryoshka=yes queue=yes",
    "loss=consistent_info_nce way=buckets base=bfloat16 accumulation=2 resume=3 matryoshka=yes queue=yes",
)


def is_met(combination):
    """Whether a combination may be drawn: with a static model on a CPU numpy encodes, and only tests shard there."""
    c = combination
    apart = c["matryoshka"] == c["queue"] == "yes" or (c["adapter"] == "lora_unsaved" and c["loss"] == "own_encoder")
    return not apart and not (c["sharded"] == "yes" and c["loss"] == "static")


def refusal(combination):
    """What the line that refuses a combination must name; None if it can be run."""
    return next((word for condition, word in REFUSED.values() if condition(combination)), None)


def shown(combination):
    """The choices that differ from the defaults, as a line that `parsed` reads."""
    return " ".join(f"{name}={value}" for name, value in combination.items() if value != DEFAULT.get(name)) or "default"


def parsed(line):
    """The combination of a line of `shown`."""
    return {**DEFAULT, **dict(choice.split("=") for choice in line.split() if choice != "default")}


# --- The parts of a run.


def tokenizer_of(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def make_bases(folder):
    """Save the bases that runs start from, one of each dtype."""
    import torch

    from contrastive_st import BertForCL
    from contrastive_st.data import train_subword_tokenizer, train_wordpiece

    train_subword_tokenizer([" ".join(WORDS)] * 3, 80).save_pretrained(folder / "static")
    tokenizer = train_wordpiece([" ".join(WORDS)] * 3, 80, max_length=16)
    for dtype in AXES["base"]:
        torch.manual_seed(0)
        config = tiny_bert(tokenizer, max_position_embeddings=24, initializer_range=0.2)
        model = BertForCL(config, pooling="mean").to(getattr(torch, dtype))
        model.save_pretrained(folder / dtype)
        tokenizer.save_pretrained(folder / dtype)
        longer = tokenizer_of(folder / dtype)
        longer.add_tokens(["added"])
        model.resize_token_embeddings(len(longer))
        model.save_pretrained(folder / f"tokens-{dtype}")
        longer.save_pretrained(folder / f"tokens-{dtype}")


def make_model(c, folder):
    """The model that a user of a combination would open, and its tokenizer."""
    import peft
    import torch
    from torch import nn

    from contrastive_st import AutoModelForCL, EncoderForCL, MatryoshkaLoss, models
    from contrastive_st.losses import (
        CoSENTLoss,
        InfoNCE,
        MixtureLoss,
        MultiTaskLoss,
        ReconstructionLoss,
        TargetsLoss,
        parse_loss,
    )  # fmt: skip
    from contrastive_st.models.adapters import add_lora, attach
    from contrastive_st.models.auto import load_config
    from contrastive_st.scripts.encoder import with_dropout

    name, base = c["loss"], folder / (f"tokens-{c['base']}" if c["adapter"] == "lora_tokens" else c["base"])
    tokenizer = tokenizer_of(folder / "static" if name == "static" else base)
    tasks = {"pairs": InfoNCE(), "scores": CoSENTLoss()}
    made = {
        "symmetric": lambda: InfoNCE(symmetric=True), "texts": InfoNCE, "mlm": InfoNCE, "of_user": lambda: of_user,
        "mixture": lambda: MixtureLoss(tasks), "multi_task": lambda: MultiTaskLoss(tasks),
        "own_encoder": InfoNCE, "static": InfoNCE, "targets": lambda: TargetsLoss("window"),
        "reconstruction": lambda: ReconstructionLoss(TargetsLoss("next"), vocab_size=len(tokenizer)),
    }  # fmt: skip
    loss = made.get(name, lambda: parse_loss({"loss": name}))()
    if c["matryoshka"] == "yes":
        loss = MatryoshkaLoss(loss, (8, 4), (1.0, 1.0))
    torch.manual_seed(0)
    dropout = float(c["dropout"])
    if name == "static":
        model = models.StaticEncoder(models.StaticConfig(len(tokenizer), 16), loss=loss)
    elif name == "own_encoder":
        model = EncoderForCL(Bag(len(tokenizer), dropout), loss)
    elif name == "skip_thoughts":
        config = models.SkipThoughtsConfig(vocab_size=len(tokenizer), embedding_size=8, hidden_size=16)
        model = models.SkipThoughts(config, loss=loss)
    elif name in TOWERS:
        shape = {"vocab_size": len(tokenizer), "embedding_size": 8, "hidden_size": 16, "dropout": dropout}
        model = models.QuickThoughtsGRU(models.QuickThoughtsConfig(**shape), loss=loss)
    else:
        config = with_dropout(load_config(base), dropout)
        model = AutoModelForCL.from_pretrained(base, config=config, loss=loss, do_mlm=name == "mlm", with_head=True)
    if name not in NOT_OF_TRANSFORMERS and c["way"] != "packed":
        model.length_bucketing = c["way"] != "padded"
        model.bucket_options = {"max_rows": 4}
    if c["adapter"] == "lora_unsaved":
        tokenizer.add_tokens(["added"])
        model.resize_token_embeddings(len(tokenizer))
    if c["adapter"].startswith("lora"):
        add_lora(model, r=2, dropout=dropout)
    elif c["adapter"] == "dora":
        attach(model, peft.LoraConfig(r=2, use_dora=True, target_modules="all-linear", task_type="FEATURE_EXTRACTION"))
    if c["adapter"] != "full":
        for key, weight in model.named_parameters():
            if "lora_B" in key:  # zeros give A no gradient
                nn.init.normal_(weight, std=0.1)
    return model, tokenizer


def of_user(views):
    """A user's loss, which is written for one process."""
    from torch.nn.functional import normalize

    first, second = normalize(views[:, :2], dim=-1).unbind(1)
    scores = first @ second.T
    return (scores - scores.diagonal()[:, None] + 0.3).relu().mean()


def Bag(words, dropout):
    """A user's encoder."""
    import torch
    from torch import nn

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.dropout, self.output = nn.Embedding(words, 16), nn.Dropout(dropout), nn.Linear(16, 16)

        def forward(self, input_ids, attention_mask):
            states = self.words(input_ids) * attention_mask[..., None]
            return self.output(self.dropout(states.sum(1) / attention_mask.sum(1, keepdim=True)))

    torch.manual_seed(1)
    return Bag()


def make_rows(kind, tokenizer, count, seed):
    """Rows of the kind that a loss trains."""
    draw = random.Random(f"{kind} {seed}")
    text = lambda: tokenizer(" ".join(draw.choices(WORDS, k=draw.randint(2, 8))))["input_ids"]
    vector = lambda size: [draw.gauss(0, 1) for _ in range(size)]
    if kind in ("texts", "mlm", "tsdae", *TOWERS):
        return [{"input_ids": text()} for _ in range(count)]
    if kind in ("embedding_distillation", "relational_distillation"):
        size = 16 if kind.startswith("e") else 6
        return [{"input_ids": text(), "teacher": vector(size)} for _ in range(count)]
    views = {"symmetric": 3, "triplet": 3, "margin_mse": 4, "kl_distillation": 4}.get(kind, 2)
    rows = [{"input_ids": [text() for _ in range(views)]} for _ in range(count)]
    for i, row in enumerate(rows):
        if kind in ("cosine_similarity", "cosent", "angle", "scored"):
            row["score"] = draw.random()
        elif kind == "softmax":
            row["label"] = i % 3
        elif views == 4:
            row["scores"] = vector(3)
        elif kind == "guided_info_nce":
            row["guide"] = [vector(5), vector(5)]
        elif kind == "document_info_nce":
            row["document"] = i // 3
    return rows


def make_data(c, tokenizer, folder, held_out=False):
    """The rows of a combination that are trained on or held out, and their collator."""
    from datasets import Dataset

    from contrastive_st import data

    kind, seed, count = c["loss"], int(held_out), HELD_OUT if held_out else ROWS[c["accumulation"]]
    if kind in ("mixture", "multi_task"):
        parts = {"pairs": "info_nce", "scores": "cosent"}
        rows = {part: make_rows(own, tokenizer, count // 2, seed) for part, own in parts.items()}
        if c["feed"] == "parts":
            stream = Dataset.from_list(rows["pairs"]).to_iterable_dataset(num_shards=3)
            rows["pairs"] = stream.shuffle(seed=1, buffer_size=20)
        return data.Mixture(rows, {"pairs": 2, "scores": 1} if c["feed"] == "parts" else None), data.MixtureCollator(
            {"pairs": data.PairCollator(tokenizer), "scores": data.LabelledPairCollator(tokenizer)}
        )
    collator = {
        "reconstruction": data.CooccurrenceCollator, "targets": data.ContextWindowCollator,
        "skip_thoughts": data.ContextWindowCollator,
        "texts": data.DropoutPairCollator, "tsdae": data.DeletionCollator, "softmax": data.LabelledPairCollator,
        "cosine_similarity": data.LabelledPairCollator, "cosent": data.LabelledPairCollator,
        "angle": data.LabelledPairCollator, "margin_mse": data.CandidatesCollator,
        "kl_distillation": data.CandidatesCollator, "embedding_distillation": data.TeacherCollator,
        "relational_distillation": data.TeacherCollator, "document_info_nce": data.NeighborPairCollator,
    }.get(kind, data.PairCollator)  # fmt: skip
    collator = data.DropoutPairCollator(tokenizer, do_mlm=True) if kind == "mlm" else collator(tokenizer)
    if kind in TOWERS or c["feed"] in ("neighbors", *CORPORA):
        path = folder / f"corpus-{seed}-{os.environ.get('RANK', 0)}-{os.getpid()}.txt"
        draw = random.Random(seed)
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 8))) for _ in range(count)]
        if c["feed"] == "neighbors":
            path.write_text("\n\n".join("\n".join(lines[i : i + 4]) for i in range(0, count, 4)))
            documents = data.Documents.read([path], held_out=0)
            return data.NeighborPairs(data.TokenFile.write(documents, tokenizer, 16)), collator
        path.write_text("\n".join(lines))
        return data.SentenceCorpus(path, tokenizer, 16, **CORPORA.get(c["feed"], {})), collator
    if c["validation"] == "split":
        every = make_rows(kind, tokenizer, ROWS[c["accumulation"]] + HELD_OUT, 0)
        numbers = Dataset.from_dict({"number": [str(i) for i in range(len(every))]})
        parts = data.split_rows(numbers, HELD_OUT / len(every))
        rows = [every[int(i)] for i in parts[held_out]["number"]]
    else:
        rows = make_rows(kind, tokenizer, count, seed)
    if c["feed"] == "stream" and not held_out:
        return Dataset.from_list(rows).to_iterable_dataset(num_shards=3), collator
    return rows, collator


def evaluators(c, tokenizer):
    """The evaluator of a combination; None without one."""
    if c["evaluator"] == "none":
        return None
    draw = random.Random(5)
    first, second = ([" ".join(draw.choices(WORDS, k=4)) for _ in range(8)] for _ in range(2))
    scores = [i % 4 / 4 for i in range(8)]
    if c["evaluator"] == "ours":
        import torch

        from contrastive_st.evaluation import EmbeddingSimilarityEvaluator

        def probe(model):
            """Draws numbers, as a probe does that is fitted."""
            torch.rand(3), np.random.rand(3), random.random()
            return {"probe": 0.5}

        return [EmbeddingSimilarityEvaluator(first, second, scores, name="dev", tokenizer=tokenizer), probe]
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator as Theirs

    return Theirs(first, second, scores, name="dev", write_csv=False)


def make_trainer(c, folder, out, extras=False, batch=None, workers=False):
    """The trainer of a combination, which keeps its weights after each step.

    Args:
        c: the combination.
        folder: that of the bases.
        out: the output folder.
        extras: validate, evaluate, log and save.
        batch: that of the plain step of one process, which other ways and more processes must equal.
        workers: read the data in another number of processes.
    """
    import transformers
    from transformers import TrainerCallback

    from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, LabelledPairCollator

    size = batch or BATCH // int(c["processes"])
    if batch:
        c = {**c, "way": "padded", "batch": "given", "step": c["step"] if c["step"] == "bf16" else "plain"}
    transformers.set_seed(1)
    model, tokenizer = make_model(c, folder)
    rows, collator = make_data(c, tokenizer, folder)
    optional = {"unpadded": c["way"] == "packed", "chunk_size": 5 if c["way"] == "chunks" else None}
    optional |= {"bf16": c["step"] == "bf16", CHECKPOINTING: c["step"] == "checkpointed"}
    if c["step"] == "compiled":
        optional |= {"torch_compile": True, "torch_compile_backend": "eager"}  # a graph, but no code
    given = {}
    if extras:
        optional |= {"save_strategy": "steps", "save_steps": 1, "logging_steps": 1, "report_to": "tensorboard"}
        optional["save_total_limit"] = 99  # each step may be resumed from
        if c["validation"] in ("rows", "split"):
            given["eval_dataset"] = make_data(c, tokenizer, folder, held_out=True)[0]
        elif c["validation"] == "scored":
            given["eval_dataset"] = make_rows("scored", tokenizer, HELD_OUT, 1)
            given["eval_collator"] = LabelledPairCollator(tokenizer)
        given["evaluator"] = evaluators(c, tokenizer)
        if c["validation"] != "none" or c["evaluator"] != "none" or c["keep"] != "last":
            optional |= {"eval_strategy": "steps", "eval_steps": 1}
        optional["load_best_model_at_end"] = c["keep"] == "best"
        if c["keep"] == "early_stopping":
            optional["early_stopping_patience"] = 9
    else:
        optional |= {"save_strategy": "no", "logging_strategy": "no", "report_to": "none"}
    accumulated = int(c["accumulation"])
    args = ContrastiveTrainingArguments(
        str(out), per_device_train_batch_size=size, per_device_eval_batch_size=7,
        max_steps=STEPS if c["feed"] in ("stream", "parts") or accumulated == 1 else -1,
        num_train_epochs=2,  # with two batches accumulated, the last step of an epoch has one
        gradient_accumulation_steps=accumulated, learning_rate=0.05, optim="sgd", optim_args="momentum=0.9",
        lr_scheduler_type="constant", disable_tqdm=True, auto_find_batch_size=c["batch"] == "halved",
        momentum_queue=9 if c["queue"] == "yes" else 0, momentum=0.9, dataloader_num_workers=int(workers), **optional,
    )  # fmt: skip

    class Weights(TrainerCallback):
        def __init__(self):
            self.steps = {}

        def on_step_end(self, args, state, control, model=None, **kwargs):
            self.steps[state.global_step] = {
                name: getattr(weight.detach(), "full_tensor", weight.detach)().clone().numpy()
                for name, weight in model.named_parameters()
                if weight.requires_grad
            }

    class Trainer(ContrastiveTrainer):
        failed = False

        def training_step(self, *args, **kwargs):
            if self.args.auto_find_batch_size and not self.failed and self.state.global_step == 0:
                self.failed = True
                raise RuntimeError("CUDA out of memory.")
            return super().training_step(*args, **kwargs)

    trainer = Trainer(
        model, args, train_dataset=rows, data_collator=collator, processing_class=tokenizer, callbacks=[Weights()],
        **given,
    )  # fmt: skip
    trainer.start = {name: w.detach().clone().numpy() for name, w in model.named_parameters() if w.requires_grad}
    trainer.weights = next(x for x in trainer.callback_handler.callbacks if isinstance(x, Weights)).steps
    return trainer


# --- What each process of a combination does.


def group(line, folder):
    """Train without and with everything that must change nothing; returns weights by step and what was recorded."""
    from contrastive_st.errors import InputError

    c, folder = parsed(line), Path(folder)
    _begin(c)
    try:
        trainer = make_trainer(c, folder.parent / "bases", folder / "out", extras=True)
        if trainer.eval_dataset is not None and c["sharded"] == "no":  # accelerate shards in training alone
            trainer.evaluate()
        trainer.train()
    except InputError as error:
        return {"refused": str(error)}
    trainer.save_model(str(folder / "saved"))
    result = {"full": trainer.weights, "start": trainer.start, "refused": None}
    # all processes of a sharded model take part in encoding
    vectors = _vectors(trainer.core, trainer.processing_class) if c["loss"] != "own_encoder" else None
    if int(os.environ.get("RANK", 0)) == 0:
        state, name = trainer.state, str(trainer.args.metric_for_best_model)
        result |= {
            "best": (f"eval_{name.removeprefix('eval_')}", state.best_metric),
            "kept": state.best_model_checkpoint,
            "vectors": vectors,
            "batch": trainer._train_batch_size,
            "recorded": json.loads((folder / "saved" / "training_metadata.json").read_text()),
        }
    bare = make_trainer(c, folder.parent / "bases", folder / "bare")
    bare.train()
    return {**result, "bare": bare.weights}


def resumed(line, folder, step):
    """Go on from the checkpoint of a step; returns weights by step."""
    c, folder = parsed(line), Path(folder)
    _begin(c)
    trainer = make_trainer(c, folder.parent / "bases", folder / "out", extras=True, workers=c["resume"] == "workers")
    trainer.train(resume_from_checkpoint=str(folder / "out" / f"checkpoint-{step}"))
    return trainer.weights


def alone(line, folder, batch, kept):
    """The run of one process, and what is in the saved folder and the kept checkpoint for whoever opens them."""
    c, folder = {**parsed(line), "sharded": "no"}, Path(folder)
    _begin(c)
    trainer = make_trainer(c, folder.parent / "bases", folder / "alone", batch=batch)
    trainer.train()
    result = {"alone": trainer.weights}
    if c["loss"] != "own_encoder":
        result |= _opened(c, folder, kept)
    return result


def _opened(c, folder, kept):
    from safetensors.torch import load_file

    from contrastive_st import AutoModelForCL, SentenceEncoder
    from contrastive_st.files.folders import TRAINED

    result = {"ours": SentenceEncoder(str(folder / "saved")).encode(TEXTS)}
    if c["loss"] not in TOWERS:
        from sentence_transformers import SentenceTransformer

        peer = SentenceTransformer(str(folder / "saved"), device="cpu")
        result["theirs"] = peer.encode(TEXTS, show_progress_bar=False, convert_to_tensor=True).float().numpy()
    if c["keep"] != "last":
        trainer = make_trainer({**c, "processes": "1"}, folder.parent / "bases", folder / "judged", extras=True)
        path = Path(kept, TRAINED)  # of an adapter, whose folder has no place for the head of a loss
        weights = AutoModelForCL.from_pretrained(folder / "saved", with_head=True).state_dict()
        trainer.model.load_state_dict(load_file(path) if path.is_file() else weights, strict=False)
        result["metrics"] = trainer.evaluate()
    return result


def _vectors(model, tokenizer):
    from contrastive_st import SentenceEncoder

    return SentenceEncoder(model, tokenizer).encode(TEXTS)


def _begin(c):
    """Print nothing, and shard if the combination says so."""
    import logging

    import datasets

    datasets.disable_progress_bars()
    logging.getLogger("contrastive_st").setLevel(logging.ERROR)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (until the process ends)
    if "broken" in c:
        from meetings.breaks import BREAKS

        BREAKS[c["broken"]]()
    if c["sharded"] == "no":
        return
    options = {"VERSION": "2", "AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP", "STATE_DICT_TYPE": "FULL_STATE_DICT"}
    os.environ.update({f"FSDP_{name}": value for name, value in options.items()}, ACCELERATE_USE_FSDP="true")
    if int(c["processes"]) > 1:  # accelerate shards on GPUs alone: it is told that these processes have some
        import torch
        from accelerate.state import PartialState
        from accelerate.utils import DistributedType

        torch.distributed.init_process_group("gloo")
        PartialState._prepare_backend = lambda self, *args: ("gloo", DistributedType.MULTI_GPU)
        PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))


# --- The laws.


def check(combination, folder):
    """Hold one combination to the laws.

    Args:
        combination: a value of each axis.
        folder: an empty one, beside `bases`.

    Returns:
        The faults, each with the letter of its law.
    """
    line, count, word = shown(combination), int(combination["processes"]), refusal(combination)
    runs = together(count, group, line, folder)
    if word is not None:
        message = runs[0]["refused"]
        if message is None:
            return ["e: it was not refused"]
        return [] if word in message and "\n" not in message else [f"e: refused by another line: {message}"]
    if runs[0]["refused"]:
        return [f"e: refused: {runs[0]['refused']}"]
    first, faults = runs[0], []
    steps = sorted(first["full"])
    half = combination["base"] != "float32" or combination["step"] == "bf16"
    rounding = 0.1 if combination["step"] == "bf16" else 2e-3  # of the norm of the update
    if any(not _same(run["full"], first["full"]) for run in runs):
        faults.append("a: the processes have different weights")
    if not _same(first["bare"], first["full"]):
        faults.append("b: evaluating, logging and saving change the weights")
    if combination["resume"] != "none":
        step = 2 if combination["resume"] == "workers" else int(combination["resume"])
        rest = {number: first["full"][number] for number in steps if number > step}
        for run in together(count, resumed, line, folder, step):
            # the order in which DDP adds the gradients of three depends on its buckets, which change after a first step
            near = count > 2 and _distance(run, rest, first["start"]) < (rounding if half else 1e-5)
            if not (near or _same(run, rest)):
                faults.append(f"c: resumed from step {step} is not uninterrupted")
                break
    (one,) = together(1, alone, line, folder, first["batch"] * count, first["kept"])
    if combination["dropout"] == "0" and combination["loss"] not in DRAWN:
        apart = _distance(first["full"], one["alone"], first["start"])
        if not apart < rounding:
            faults.append(f"a: {count} processes are not one: the update differs by {apart:.1e} of its norm")
    for name in ("ours", "theirs"):
        if name in one and not _near(one[name], first["vectors"], 3e-2 if half else 1e-5):
            apart = float(np.abs(one[name] - first["vectors"]).max())
            faults.append(f"d: what was saved is not what is opened, by {name}: {apart:.1e}")
    recorded = first["recorded"]
    done = {
        "per_device_train_batch_size": first["batch"], "processes": count, "steps": steps[-1],
        "gradient_accumulation_steps": int(combination["accumulation"]),
    }  # fmt: skip
    found = {
        **recorded["hyper_parameters"],
        "processes": recorded["launch"]["processes"],
        "steps": recorded["run"]["steps"],
    }
    for name, value in done.items():
        if found.get(name) != value:
            faults.append(f"e: {name} was {value}, and {found.get(name)} is recorded")
    if "metrics" in one:
        name, value = first["best"]
        if not abs(one["metrics"].get(name, np.nan) - value) <= (0.1 if half else 1e-4) * max(abs(value), 1):
            faults.append(f"e: the checkpoint was kept for {name} {value}, and has {one['metrics'].get(name)}")
    return faults


def _same(ours, reference):
    return ours.keys() == reference.keys() and all(
        np.array_equal(weight, reference[step][name]) for step, own in ours.items() for name, weight in own.items()
    )


def _distance(ours, reference, start):
    """The norm of the difference over the norm of the update; infinite if the steps are not the same."""
    if ours.keys() != reference.keys():
        return np.inf
    last = max(ours)
    apart = [ours[last][name] - weight for name, weight in reference[last].items()]
    moved = [weight - start[name] for name, weight in reference[last].items()]
    norm = lambda parts: np.sqrt(sum(float((part.astype(np.float64) ** 2).sum()) for part in parts))
    return norm(apart) / norm(moved) if norm(moved) else np.inf


def _near(ours, reference, tolerance):
    scale = np.abs(reference).max()
    return ours.shape == reference.shape and bool((np.abs(ours - reference) <= tolerance * scale).all())
