"""The settings in a config: parsed once, with the fields of their own loss, and damaged ones told in a line."""

import copy
import json

import pytest

from contrastive_st.errors import InputError
from contrastive_st.losses import LOSSES, InfoNCE, TripletLoss, parse_loss
from contrastive_st.models import BertForCL
from contrastive_st.models.configuration import ContrastiveConfig

OF_BERT = {
    "pooling": "mean", "mlp_only_train": False, "do_mlm": False, "mlm_weight": 0.1, "cutoff": None, "cutoff_ratio": 0.1,
    "prompts": {}, "default_prompt_name": None, "truncate_dim": None, "include_prompt": True,
    "dense": [], "normalize": False, "similarity": "cosine",
}  # fmt: skip


def test_settings_of_a_copy_and_of_a_folder_are_right(bert_config, tmp_path):
    model = BertForCL(bert_config, loss="softmax", pooling="mean").train()
    copied = copy.deepcopy(model)
    copied.drop_heads()
    assert (copied.settings.with_head, model.settings.with_head) == (False, True)
    assert copied.config.contrastive == copied.settings.section()
    copied.save_pretrained(tmp_path)
    assert BertForCL.from_pretrained(tmp_path).settings == copied.settings
    assert BertForCL.from_pretrained(tmp_path, loss="triplet").settings.loss == TripletLoss()  # nothing of the other


def test_a_config_holds_the_fields_of_its_own_loss(bert_config):
    model = BertForCL(bert_config, loss=TripletLoss(0.3), pooling="mean")
    assert model.config.contrastive == {"loss": "triplet", "margin": 0.3, "with_head": True, **OF_BERT}
    with pytest.raises(InputError, match="temperature"):
        BertForCL(model.config, temperature=0.1)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_comes_back_from_its_settings(name):
    needed = {
        "mixture": {"tasks": {"a": InfoNCE(0.3)}},
        "multi_task": {"tasks": {"a": InfoNCE(0.3)}},
        "matryoshka": {"inner": InfoNCE(0.3), "dims": (8, 4)},
    }
    loss = LOSSES[name](**needed.get(name, {}))
    assert parse_loss(json.loads(json.dumps(loss.settings()))) == loss


def test_no_setting_of_a_loss_is_one_of_the_model():
    """The section is flat: a setting of both would be the model's alone."""
    own = set(ContrastiveConfig.own_names())
    assert not {name: shared for name, loss in LOSSES.items() if (shared := own & set(loss.setting_names()))}
