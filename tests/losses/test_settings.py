"""The settings of losses are typed: a value out of its type or its bounds makes no loss, whichever it is."""

import dataclasses
import json
import math

import pytest
import torch

from contrastive_st import InputError, scripts
from contrastive_st.losses import LOSSES, CosineSimilarityLoss, InfoNCE, Loss, MatryoshkaLoss, MixtureLoss, parse_loss
from contrastive_st.options import field_types, fits
from contrastive_st.scripts.arguments import EncoderArguments
from contrastive_st.tokens import name_number

NUMBERS = [
    (name, setting)
    for name, kind in LOSSES.items()
    if kind.of_package
    for setting, hint in field_types(kind).items()
    if setting in kind.setting_names() and (fits(1.5, hint) or fits(2, hint)) and not fits("text", hint)
]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "0.5", True])
@pytest.mark.parametrize(("name", "setting"), NUMBERS)
def test_no_number_is_taken_that_is_none(name, setting, value):
    if setting == "symmetric" and value is True:
        pytest.skip("true is one")
    with pytest.raises(InputError, match=setting):
        parse_loss({"loss": name, setting: value})


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "matryoshka", "dims": [8, 4.5]},
        {"loss": "matryoshka", "dims": [8], "weights": [math.nan]},
        {"loss": "matryoshka", "dims": [8], "inner": 5},
        {"loss": "softmax", "features": "u"},
        {"loss": "info_nce", "symmetric": "yes"},
    ],
)
def test_other_values(settings):
    with pytest.raises(InputError):
        parse_loss(settings)


def test_cosines_below_0_are_scores():
    views = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    assert CosineSimilarityLoss()(views, torch.tensor([-1.0])) == 0
    with pytest.raises(InputError, match="scores"):
        CosineSimilarityLoss()(views, torch.tensor([-1.5]))


def test_a_loss_of_your_own_may_have_types_of_your_own():
    @dataclasses.dataclass(frozen=True)
    class Mine(Loss, register=False):
        weight: "Nowhere" = 3.0  # noqa: F821

    assert Mine().weight == 3.0


def test_options_from_a_file_of_an_editor_of_windows(tmp_path):
    options = {"prompts": ["query=q: "], "dropout": "1e-1", "pooling": None, "bidirectional": False, "num-layers": 3}
    (tmp_path / "conf.json").write_text(json.dumps(options), encoding="utf-8-sig")
    for flags in ([f"--config={tmp_path / 'conf.json'}"], [str(tmp_path / "conf.json")]):
        (found,) = scripts.TrainingParser(EncoderArguments).parse(flags)
        assert found == EncoderArguments(prompts=["query=q: "], dropout=0.1, bidirectional=False, num_layers=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [("max_lenght: 3", "unknown argument --max_lenght; did you mean --max_length"), ("3", "has no options; write each"),
     ("max_length: few", "invalid int value: 'few'"), ("a: [", "line 1: not YAML")],
)  # fmt: skip
def test_a_wrong_file_of_options_is_one_line(text, message, tmp_path):
    (tmp_path / "conf.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        scripts.TrainingParser(EncoderArguments).parse([str(tmp_path / "conf.yaml")])


# --- What the log says of a batch.


def test_the_metrics_of_a_large_batch_are_those_among_all_candidates():
    views = torch.nn.functional.normalize(torch.randn(1500, 2, 8), dim=-1)
    found = InfoNCE().metrics(views)
    scores = views[:1024, 0] @ views[:, 1].T
    assert found["candidates"] == 1500
    assert found["accuracy"] == pytest.approx((scores.argmax(1) == torch.arange(1024)).float().mean().item())
    assert found["alignment"] == pytest.approx((views[:, 0] - views[:, 1]).square().sum(1).mean().item(), rel=1e-5)


def test_a_loss_says_what_chance_is():
    views = torch.randn(40, 2, 8)
    ln = math.log(40)
    assert InfoNCE().chances(InfoNCE().metrics(views)) == {"loss": pytest.approx(ln)}
    loss = MatryoshkaLoss(InfoNCE(), (8, 4), (1.0, 0.5))
    assert loss.chances(loss.metrics(views)) == {"loss": pytest.approx(1.5 * ln)}
    loss = MixtureLoss({"a_b": InfoNCE(), "b": {"loss": "cosent"}})
    metrics = loss.metrics(views, torch.full((40, 1), name_number("a_b")))
    assert loss.chances(metrics) == {"loss_a_b": pytest.approx(ln)}
