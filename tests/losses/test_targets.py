"""Targets and their losses against plain loops, and against the matrices of the post that introduced them."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from plain import loop_overlap, loop_targets_loss, loop_window, value_and_gradient

from contrastive_st.errors import InputError
from contrastive_st.losses import ReconstructionLoss, TargetsLoss, targets as build
from contrastive_st.losses.targets import BAGS, PLACES
from meetings.covering import covering

# Sentences that share words in the pattern of the post's examples, so that its numbers come out
THREE = ["we hear birds", "the birds sang", "birds hear worms"]
FOUR = ["the lamp is red", "the birds sang", "birds eat worms", "the boy near the gate fed the cows"]
OTHERS = ~torch.eye(4, dtype=torch.bool)


def count_bags(sentences, binary=False):
    """`[B, K, 2]` of (word, count)."""
    ids = {word: i for i, word in enumerate(sorted({word for text in sentences for word in text.split()}))}
    counts = [Counter(text.split()) for text in sentences]
    bags = torch.zeros(len(sentences), max(map(len, counts)), 2, dtype=torch.float64)
    for i, bag in enumerate(counts):
        for k, (word, count) in enumerate(bag.items()):
            bags[i, k] = torch.tensor([ids[word], 1 if binary else count])
    return bags


def tfidf_bags(sentences):
    """The counts with sklearn's smoothed IDF, of unit length."""
    bags = count_bags(sentences)
    for i, bag in enumerate(bags):
        for k, (word, count) in enumerate(bag.tolist()):
            frequency = sum(any(w == word and c for w, c in other.tolist()) for other in count_bags(sentences))
            bags[i, k, 1] = count * (torch.tensor((1 + len(bags)) / (1 + frequency)).double().log() + 1)
        bags[i, :, 1] /= bags[i, :, 1].norm()
    return bags


def test_the_matrices_of_the_post():
    three, four, tfidf = count_bags(THREE, binary=True), count_bags(FOUR), tfidf_bags(FOUR)
    assert build.overlap(three, three).tolist() == [[3, 1, 2], [1, 3, 1], [2, 1, 3]]
    assert build.overlap(four, four).tolist() == [[4, 1, 0, 3], [1, 3, 1, 3], [0, 1, 3, 0], [3, 3, 0, 14]]
    similar = build.overlap(tfidf, tfidf)
    printed = [[1, 0.155, 0, 0.225], [0.155, 1, 0.270, 0.291], [0, 0.270, 1, 0], [0.225, 0.291, 0, 1]]
    assert [[round(x, 3) for x in row] for row in similar.tolist()] == printed
    # The post prints 0001 0010 0100 1000. Its rows 1 and 3 are the arg-max of its own TF-IDF matrix; its rows 2 and 4
    # are not (0.291 is greater than 0.270 and 0.225), so those two are taken from the matrix here.
    expected = [[0, 0, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert build.binarize(similar, OTHERS).tolist() == expected


def sentences(bags, n=9, seed=0):
    """Views and what their targets are built from, with two documents and a gap, and a bag that shares nothing."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(n, 2, 5, dtype=torch.float64, generator=generator)
    places = torch.tensor([[0, 0], [0, 1], [0, 2], [0, 4], [0, 5], [3, 0], [3, 1], [3, 2], [7, 0]])[:n]
    if not bags:
        return views, places
    ids = torch.randint(0, 6, (n, 3), generator=generator)
    ids = torch.stack([torch.randperm(6, generator=generator)[:3] for _ in range(n)])
    ids[-1] = torch.tensor([20, 21, 22])
    weights = torch.rand(n, 3, dtype=torch.float64, generator=generator)
    weights[2, 1:] = 0  # a short bag, padded
    return views, torch.cat([places[:, None].double(), torch.stack([ids.double(), weights], dim=-1)], dim=1)


def raw_targets(loss_fn, targets):
    return loop_overlap(targets[:, 1:]) if loss_fn.targets in BAGS else loop_window(targets, loss_fn.offsets)


def documents_of(targets):
    return targets.flatten(1)[:, 0]


AXES = {
    "targets": PLACES + BAGS,
    "row_loss": ("kl", "cross_entropy", "l2", "block", "pairwise"),
    "context": ((1, None), (2, (1.0, 0.5))),
    "scores": (("dot", 1.0, "negatives"), ("cosine", 0.2, "mask")),
    "target_temperature": (1.0, 0.3),
    "label_smoothing": (0.0, 0.1),
    "surrogate": ("logistic", "hinge"),
}


def is_one(c):
    """Whether every setting of a combination has a say in it."""
    return (
        (c["targets"] in PLACES or c["context"] == (1, None))
        and (c["targets"] in ("counts", "tfidf") or c["target_temperature"] == 1.0)
        and (c["row_loss"] in ("kl", "cross_entropy") or c["label_smoothing"] == 0.0)
        and (c["row_loss"] in ("block", "pairwise") or c["surrogate"] == "logistic")
    )


#: Any three of targets, loss and another setting, and any two of the others
GRID = [
    TargetsLoss(c.pop("targets"), c.pop("row_loss"), *c.pop("context"), *c.pop("scores"), **c)
    for c in covering(AXES, is_one, also="targets")
]


@pytest.mark.parametrize("loss_fn", GRID, ids=repr)
def test_equals_a_plain_loop(loss_fn):
    views, targets = sentences(loss_fn.targets in BAGS)
    keys = torch.arange(18).view(9, 2)
    keys[6, 0] = keys[0, 0]
    keys[4, 0] = keys[3, 0]  # neighbours with the same text stay each other's positives
    raw = raw_targets(loss_fn, targets)
    ours = value_and_gradient(lambda x: loss_fn(x, targets, text_hashes=keys), views)
    documents = documents_of(targets)
    plain = value_and_gradient(
        lambda x: loop_targets_loss(loss_fn, x[:, 0], x[:, 1], raw, keys[:, 0], documents), views
    )
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("scores", "own_document"), [("dot", "mask"), ("cosine", "negatives")])
@pytest.mark.parametrize("targets", PLACES + BAGS)
def test_scores_and_own_document_do_not_depend_on_each_other(targets, scores, own_document):
    loss_fn = TargetsLoss(targets, scores=scores, temperature=0.7, own_document=own_document)
    views, given = sentences(targets in BAGS)
    raw, documents = raw_targets(loss_fn, given), documents_of(given)
    ours = value_and_gradient(lambda x: loss_fn(x, given), views)
    plain = value_and_gradient(lambda x: loop_targets_loss(loss_fn, x[:, 0], x[:, 1], raw, documents=documents), views)
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


def test_the_rest_of_its_document_is_left_out():
    """Sentences 0 1 2 are a document, 3 4 another: with the next sentence as the positive, 0 has 2 for a negative."""
    places = torch.tensor([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]])
    zeros = torch.zeros(5, 2, 4)
    as_negatives, masked = (TargetsLoss("next", own_document=own)(zeros, places) for own in ("negatives", "mask"))
    assert as_negatives.item() == pytest.approx(math.log(4))  # four candidates each
    assert masked.item() == pytest.approx((2 * math.log(3) + math.log(4)) / 3)  # 0: 1 3 4; 1: 2 3 4; 3: 4 0 1 2


def test_texts_without_a_document_are_no_document():
    views, given = sentences(bags=True)
    given[:, 0] = -1
    assert TargetsLoss("tfidf_bin", own_document="mask")(views, given) == TargetsLoss("tfidf_bin")(views, given)


def test_cosines_do_not_depend_on_lengths_and_have_a_temperature_of_their_own():
    views, places = sentences(False)
    cosine = TargetsLoss("window", scores="cosine")
    assert (cosine.score_temperature, TargetsLoss("window").score_temperature) == (0.05, 1.0)
    assert replace(TargetsLoss(), scores="cosine").score_temperature == 0.05  # of a changed loss too
    scaled = views * torch.arange(1, 10)[:, None, None]
    torch.testing.assert_close(cosine(scaled, places), cosine(views, places))


@pytest.mark.parametrize("targets", ["window", "tfidf", "tfidf_bin"])
@pytest.mark.parametrize("loss", ["kl", "block"])
def test_blocks_equal_the_whole(monkeypatch, targets, loss):
    loss_fn = TargetsLoss(targets, loss, 2)
    views, given = sentences(targets in BAGS)
    whole = value_and_gradient(lambda x: loss_fn(x, given), views)
    monkeypatch.setattr("contrastive_st.losses.functional.BLOCK", 9 * 4)  # four rows a block, and one left over
    torch.testing.assert_close(value_and_gradient(lambda x: loss_fn(x, given), views), whole, rtol=1e-12, atol=1e-12)


def test_one_tower_serves_as_both():
    views, places = sentences(False)
    one = views[:, :1]
    both = one.expand(-1, 2, -1)
    torch.testing.assert_close(TargetsLoss("window")(one, places), TargetsLoss("window")(both, places))


def test_label_smoothing_has_a_total_mass():
    allowed = ~torch.eye(400, dtype=torch.bool)
    targets = torch.zeros(400, 400, dtype=torch.float64)
    targets[torch.arange(399), torch.arange(1, 400)] = 1.0
    smooth = build.smooth_labels(targets, allowed, 0.1)
    torch.testing.assert_close(smooth[:-1].sum(1), torch.ones(399, dtype=torch.float64))
    assert smooth[0, 1] == pytest.approx(0.9 + 0.1 / 399)
    assert smooth[0, 0] == 0
    assert smooth[-1].sum() == 0  # the last sentence has no positive and gets none


def test_metrics_say_how_many_anchors_have_a_positive():
    views, places = sentences(False)
    metrics = TargetsLoss("next")(views, places), TargetsLoss("next").metrics(views, places)
    assert metrics[1]["positives"] == pytest.approx(5 / 9)
    assert metrics[1]["candidates"] == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"context_size": 0}, "context_size 0"),
        ({"context_size": 2, "context_weights": (1.0,)}, "for each distance a weight"),
        ({"context_weights": (0.0,)}, "not all 0"),
        ({"targets": "bert"}, "tfidf_bin"),
        ({"row_loss": "mse"}, "cross_entropy"),
        ({"temperature": 0.0}, "temperature 0.0: give a number above 0"),
        ({"target_temperature": -1.0}, "above 0"),
        ({"scores": "euclidean"}, "dot or cosine"),
        ({"own_document": "keep"}, "negatives or mask"),
        ({"label_smoothing": 1.0}, "0 or more and below 1"),
        ({"row_loss": "block", "surrogate": "ramp"}, "logistic or hinge"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        TargetsLoss(**arguments)


@pytest.mark.parametrize("loss", ["kl", "block"])
def test_documents_of_one_sentence_have_nothing_to_learn_from(loss):
    places = torch.tensor([[0, 0], [1, 0], [2, 0]])
    with pytest.raises(InputError, match="documents"):
        TargetsLoss("window", loss)(torch.randn(3, 2, 4), places)


def test_sentences_without_a_common_word_have_nothing_to_learn_from():
    bags = torch.tensor([[[0, 0], [1, 1.0]], [[0, 1], [2, 1.0]]])
    with pytest.raises(InputError, match="share a word"):
        TargetsLoss("tfidf")(torch.randn(2, 2, 4), bags)


def test_targets_of_the_wrong_kind_name_the_collator():
    with pytest.raises(InputError, match="ContextWindowCollator"):
        TargetsLoss("next")(torch.randn(2, 2, 4))
    with pytest.raises(InputError, match="CooccurrenceCollator"):
        TargetsLoss("tfidf")(torch.randn(2, 2, 4), torch.zeros(2, 2, dtype=torch.long))


@pytest.mark.parametrize("words", [3, 7, 4096])
def test_overlaps_of_known_shape_are_those_of_the_sparse_product(words, monkeypatch):
    """What a GPU runs, where the host cannot ask how many words there are: some columns at a time."""
    generator = torch.Generator().manual_seed(2)
    shape = (5, 6), (9, 4)
    bags = [
        torch.stack(
            [torch.randint(0, 11, size, generator=generator), torch.rand(size, generator=generator)], -1
        ).double()
        for size in shape
    ]
    bags[0][2:, 3:, 1] = 0  # padding, and a word twice in a bag
    expected = build.overlap(*bags)
    monkeypatch.setattr(build, "_on_host", lambda x: False)
    monkeypatch.setattr(build, "_WORDS", words)
    torch.testing.assert_close(build.overlap(*bags), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(expected, loop_overlap_of(*bags), rtol=1e-12, atol=1e-12)


def loop_overlap_of(bags, others):
    return torch.stack(
        [
            torch.stack(
                [sum(x * y for a, x in bag for b, y in other if a == b) + torch.zeros(()).double() for other in others]
            )
            for bag in bags
        ]
    )


@pytest.mark.parametrize("targets", ["next", "counts"])
def test_reconstruction_is_a_plain_loop_beside_the_loss_of_neighbours(targets):
    torch.manual_seed(0)
    views = torch.randn(5, 2, 3, dtype=torch.float64)
    places = torch.tensor([[0, 0], [0, 1], [0, 2], [1, 3], [1, 4]]).double()
    bags = torch.zeros(5, 3, 2, dtype=torch.float64)
    bags[0, :2] = torch.tensor([[4.0, 1.0], [5.0, 3.0]])
    bags[1, :1] = torch.tensor([[4.0, 2.0]])
    bags[3] = torch.tensor([[1.0, 1.0], [2.0, 1.0], [6.0, 1.0]])  # sentences 2 and 4 have no words
    given = torch.cat([places[:, None], bags], 1)
    inner = TargetsLoss(targets)
    loss = ReconstructionLoss({"loss": "targets", "targets": targets}, vocab_size=7, weight=0.3)
    assert loss.inner == inner
    head = loss.make_head(6).double()
    total = 0.0
    for x, bag in zip(views, bags, strict=True):
        scores = (head.weight @ torch.cat([x[0], x[1]]) + head.bias).tolist()
        norm = math.log(sum(map(math.exp, scores)))
        mass = float(bag[:, 1].sum())
        total += sum(weight / mass * (norm - scores[int(word)]) for word, weight in bag.tolist() if weight)
    contrast = inner(views, given if targets == "counts" else places.long())
    found = loss.with_head(head)
    assert found(views, given).item() == pytest.approx(contrast.item() + 0.3 * total / 3)
    assert found.metrics(views, given)["reconstruction"] == pytest.approx(total / 3)
