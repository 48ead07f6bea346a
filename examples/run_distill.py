"""Relational distillation (Park et al. 2019, https://arxiv.org/abs/1904.05068): learn a teacher's similarities.

With the published settings, which are the defaults (distances and angles with weights 1 and 2, batch 128, rate 1e-4, 80
epochs). They were published for images; there are none for sentences:

    accelerate launch examples/run_distill.py --teacher sentence-transformers/all-MiniLM-L6-v2 --train_file wiki.txt

With batches of similar sentences (neighbours on a short path through the teacher's embeddings) and fewer epochs:

    accelerate launch examples/run_distill.py --teacher sentence-transformers/all-MiniLM-L6-v2 --train_file wiki.txt \
        --order_seconds 60 --learning_rate 1e-3 --warmup_steps 0.1 --num_train_epochs 2 --output_dir out/ordered

To learn the softmax of the teacher's similarities, or to start from layers of the teacher and learn its embeddings:

    ... --similarity_weight 1 --distance_weight 0 --angle_weight 0
    ... --layers 0 3 5 --loss embedding_distillation --learning_rate 2e-4 --num_train_epochs 1

Without files it runs offline, on the Python documentation of this machine, with TF-IDF reduced by SVD as the teacher:

    accelerate launch examples/run_distill.py --hidden_size 128 --max_length 64 --max_train_samples 8000 \
        --learning_rate 1e-3 --warmup_steps 0.1 --num_train_epochs 2
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from datasets import Dataset
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    SentenceEncoder,
    TeacherCollator,
    read_texts,
    run,
    scripts,
    student_of,
)
from contrastive_st.data import TeacherRows
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.distributed import from_first
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.files.writing import own_cache
from contrastive_st.models.protocol import as_encoder
from contrastive_st.options import Count, NotNegative, option
from contrastive_st.scripts.arguments import EncoderArguments, ScriptArguments, TextArguments, loss_arguments
from ordering import order_corpus, path_lengths

LossArguments = loss_arguments(["relational_distillation", "embedding_distillation"])
DEFAULTS = {
    "output_dir": "out/distill",
    "dropout": 0.0,  # every sentence has a target
    "per_device_train_batch_size": 128,
    "learning_rate": 1e-4,
    "num_train_epochs": 80,
    "logging_steps": 50,
}
#: What a student made of layers of the teacher does not have: another start or size, prompts, an adapter
NOT_OF_LAYERS = (
    "model_name_or_path", "prompts", "default_prompt_name", "include_prompt", "new_head", "bidirectional", "lora_r",
    "num_layers", "hidden_size", "vocab_size",
)  # fmt: skip


@dataclass
class DrawnTextArguments(TextArguments):
    """The file of texts, of which some are drawn."""

    max_train_samples: Count | None = option(
        "Train only on this many distinct texts, drawn at random: the first ones of a file may be of few documents."
    )


@dataclass
class DistillArguments(ScriptArguments):
    """The teacher, the order of the sentences, and a student made of the teacher."""

    teacher: str | None = option("Teacher: folder or Hub name; by default TF-IDF reduced by SVD.")
    teacher_pooling: str | None = option("Pooling of the teacher, if its checkpoint does not record one.")
    cache: str | None = option(
        "Folder to cache the teacher's embeddings in, or none for no cache; by default in ~/.cache."
    )
    order_seconds: NotNegative = option(
        "Put similar texts into the same batch: search for this many seconds for a short path through the teacher's "
        "embeddings, and take the texts in the order of the path; 0: random order.",
        default=0.0,
    )
    layers: list[int] | None = option(
        "Layers of the teacher that the student starts from; by default the student is a new encoder."
    )

    def conflicts(self) -> Iterator[str]:
        """Yield the pooling of a teacher that there is not."""
        if self.teacher is None:
            yield from self.unused("without --teacher", "teacher_pooling")


def open_teacher(own: DistillArguments, texts: list[str]):
    """The given encoder, or TF-IDF of these texts, reduced to 256 dimensions."""
    if own.teacher:
        return as_encoder(own.teacher, pooling=own.teacher_pooling)
    counts = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    found = counts.fit_transform(texts)
    svd = TruncatedSVD(min(256, found.shape[1]), random_state=0).fit(found)
    return as_encoder(lambda given: svd.transform(counts.transform(given)).astype(np.float32), name="TF-IDF + SVD")


def sizes(encoder, texts: list[str]) -> str:
    """Parameters, if there are any, and sentences encoded in a second."""
    encoder.encode(texts[:32])
    started = time.perf_counter()
    encoder.encode(texts[:1000])
    speed = f"{len(texts[:1000]) / (time.perf_counter() - started):,.0f} sentences a second"
    weights = getattr(encoder, "model", None)
    return f"{sum(p.numel() for p in weights.parameters()) / 1e6:.2f} M parameters, {speed}" if weights else speed


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (DrawnTextArguments, EncoderArguments, LossArguments, DistillArguments, ContrastiveTrainingArguments)
    data, encoder, loss, own, training = scripts.start(groups, DEFAULTS, argv)
    given = encoder.dropout or any(vars(encoder)[name] is not None for name in NOT_OF_LAYERS)
    if own.layers and (own.teacher is None or given):
        flags = ", ".join(f"--{name}" for name in NOT_OF_LAYERS)
        raise InputError(f"--layers are those of --teacher; give it, and leave out --dropout, {flags}")

    # data: distinct sentences, drawn at random, each with the teacher's embedding
    docs = None if data.train_file else DocsSearch.load()
    found = texts_of(docs.training) if docs else read_texts(data.train_file, data.columns, strict=data.strict)
    drawn = found.select(np.random.default_rng(0).permutation(len(found))[: data.max_train_samples])
    texts = list(dict.fromkeys(text for row in drawn for text in row.values()))[: data.max_train_samples]
    teacher = open_teacher(own, texts)
    cache = None if own.cache == "none" else own.cache or own_cache("embeddings")
    with training.main_process_first(desc="teacher"):
        embeddings = EmbeddingStore(teacher, texts, cache, distributed=False)(texts)
    order = None
    if own.order_seconds:  # of the first process: how far it gets depends on the clock
        order = from_first(lambda: order_corpus(embeddings, seconds=own.order_seconds, seed=training.seed))
        scripts.done(f"{len(texts):,} sentences in order: {path_lengths(embeddings, order)}")

    # model: the student's relations within a batch become the teacher's, or its embeddings do
    settings = loss.settings("relational_distillation")
    if own.layers:
        student = student_of(
            own.teacher, own.layers, pooling=encoder.pooling, max_length=encoder.max_length, **settings
        )
        model, tokenizer = student.model, student.tokenizer
    else:
        model, tokenizer = scripts.open_encoder(encoder, texts, training.resume_from_checkpoint, "mean", **settings)
    column = Dataset.from_dict({"text": texts})
    tokens = scripts.tokenized(column, model, tokenizer, training, data.preprocessing_num_workers)

    # training; the evaluation is search of held-out documentation, or STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=TeacherRows(tokens, embeddings, order), processing_class=tokenizer,
        data_collator=TeacherCollator(tokenizer), evaluator=(docs.evaluator if docs else sts_evaluator)(tokenizer),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, loss, own)
    figures = scripts.finish(trainer)
    if trainer.is_world_process_zero() and not trainer.sigterm.stopped:
        scripts.done(f"teacher: {sizes(teacher, texts)}")
        scripts.done(f"student: {sizes(SentenceEncoder(training.output_dir), texts)}")
    return figures


if __name__ == "__main__":
    sys.exit(run(main))
