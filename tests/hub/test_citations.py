"""A card names the method that an architecture and a loss make, and cites both of their authors."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from contrastive_st.hub.cards import write_card
from contrastive_st.losses import LOSSES
from contrastive_st.models.families import FAMILIES
from contrastive_st.training.methods import method_of, references

ARCHITECTURES = {
    "bert": "devlin2019bert", "roberta": "liu2019roberta", "xlm-roberta": "conneau2020unsupervised",
    "mpnet": "song2020mpnet", "distilbert": "sanh2019distilbert", "modernbert": "warner2024smarter",
    "camembert": "martin2020camembert", "electra": "clark2020electra", "deberta-v2": "he2021deberta",
    "quickthoughts": "logeswaran2018efficient", "skipthoughts": "kiros2015skip", "infersent": "conneau2017supervised",
    "universal": "cer2018universal", "static": "tulkens2024model2vec",
    "qwen2": "yang2024qwen2", "qwen3": "yang2025qwen3", "llama": "touvron2023llama", "mistral": "jiang2023mistral",
    "gemma": "gemma2024open", "gemma2": "gemma2024improving", "gemma3_text": "gemma2025technical",
}  # fmt: skip
OF_LOSSES = [
    ({"loss": "info_nce"}, {"collator": "DropoutPairCollator"}, "SimCSE, unsupervised", ["gao2021simcse"]),
    ({"loss": "info_nce"}, {"collator": "NLITripletCollator"}, "SimCSE, supervised", ["gao2021simcse"]),
    ({"loss": "info_nce"}, {"collator": "PairCollator"}, "InfoNCE on pairs", ["oord2018representation"]),
    ({"loss": "info_nce"}, {"collator": "PairCollator", "hyper_parameters": {"momentum_queue": 64}}, "CERT",
     ["fang2020cert", "he2020momentum"]),
    ({"loss": "consistent_info_nce", "cutoff": "span"}, {}, "Cutoff", ["shen2020simple"]),
    ({"loss": "info_nce", "cutoff": None}, {"collator": "PairCollator", "loss": {"settings": {"cutoff": "span"}}},
     "Cutoff", ["shen2020simple"]),
    ({"loss": "targets", "targets": "window"}, {}, "QuickThoughts", ["logeswaran2018efficient"]),
    ({"loss": "targets", "targets": "next", "row_loss": "block"}, {}, "CURL", ["arora2019theoretical"]),
    ({"loss": "targets", "targets": "tfidf_bin"}, {}, "Binarized TF-IDF targets", ["logeswaran2018efficient"]),
    ({"loss": "softmax"}, {}, "Classification of pairs", ["reimers2019sentence"]),
    ({"loss": "cosine_similarity"}, {}, "Regression on pairs", ["reimers2019sentence"]),
    ({"loss": "cosent"}, {}, "CoSENT", ["huang2024cosent"]),
    ({"loss": "angle"}, {}, "AnglE", ["li2024angle"]),
    ({"loss": "guided_info_nce"}, {}, "Guided negatives", ["solatorio2024gistembed", "moreira2024nv"]),
    ({"loss": "matryoshka", "inner": {"loss": "info_nce"}}, {"collator": "NLITripletCollator"},
     "SimCSE, supervised, Matryoshka", ["gao2021simcse", "kusupati2022matryoshka"]),
    ({"loss": "triplet"}, {}, "Triplets", ["reimers2019sentence"]),
    ({"loss": "reconstruction", "vocab_size": 8}, {}, "reconstruction with a contrastive loss",
     ["logeswaran2018efficient"]),
    ({"loss": "embedding_distillation"}, {}, "Distillation of embeddings", []),
    ({"loss": "relational_distillation"}, {}, "Relational distillation", ["park2019relational"]),
    ({"loss": "margin_mse"}, {"collator": "CandidatesCollator"}, "MarginMSE", ["hofstatter2020improving"]),
    ({"loss": "kl_distillation"}, {"collator": "CandidatesCollator"}, "Distillation of rankings",
     ["lin2020distilling"]),
    ({"loss": "skip_thoughts"}, {}, "Skip-Thoughts", ["kiros2015skip"]),
    ({"loss": "tsdae"}, {}, "TSDAE", ["wang2021tsdae"]),
    ({"loss": "document_info_nce"}, {}, "InfoNCE of neighbouring sentences", ["oord2018representation"]),
    ({"loss": "info_nce"}, {"collator": "PairCollator", "soup": [{"name": "a", "weight": 1.0, "figure": None}]},
     "InfoNCE on pairs", ["oord2018representation", "wortsman2022model"]),
    ({"loss": "info_nce"}, {"collator": "PairCollator", "adapter": {"kind": "LoRA"}}, "InfoNCE on pairs",
     ["oord2018representation", "hu2022lora"]),
    ({"loss": "multi_task", "tasks": {"a": {"loss": "softmax"}, "b": {"loss": "info_nce"}}}, {}, "Several tasks",
     ["reimers2019sentence", "oord2018representation"]),
    ({"loss": "mixture", "tasks": {"a": {"loss": "info_nce"}, "b": {"loss": "cosent"}}}, {}, "Several tasks",
     ["oord2018representation", "huang2024cosent"]),
]  # fmt: skip
SYSTEMS = {("infersent", "softmax"): "InferSent", ("universal", "multi_task"): "Universal Sentence Encoder"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_and_loss_has_its_method(architecture):
    for settings, training, name, cited in OF_LOSSES:
        if system := SYSTEMS.get((architecture, settings["loss"])):
            name, cited = system, []
        method = method_of(architecture, settings, training)
        assert method.name == name
        assert list(method.keys) == list(dict.fromkeys([*cited, ARCHITECTURES[architecture]]))


def test_a_card_has_the_method_and_its_citations(tmp_path):
    for settings, training, name, cited in OF_LOSSES:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "contrastive": settings}))
        (tmp_path / "training_metadata.json").write_text(json.dumps(training))
        text = ModelCard.load(write_card(tmp_path, name="model", overwrite=True)).text
        assert f"method: {name}." in text
        assert re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE) == [*cited, "devlin2019bert"]


def test_no_architecture_and_no_loss_is_left_out():
    assert set(FAMILIES) <= set(ARCHITECTURES)
    assert {name for name, kind in LOSSES.items() if kind.of_package} == {
        settings["loss"] for settings, _, _, _ in OF_LOSSES
    }


def test_a_checkpoint_that_records_no_loss_cites_its_architecture():
    assert method_of("bert", {}).name == "not recorded"
    assert method_of("bert", {}).keys == ("devlin2019bert",)
    assert method_of("gpt2", {}).citations == ()


def test_every_reference_is_whole_and_is_used():
    used = {
        key for architecture in ARCHITECTURES for loss in OF_LOSSES for key in method_of(architecture, *loss[:2]).keys
    }
    assert set(references()) == used
    for key, entry in references().items():
        assert entry.count("{") == entry.count("}"), key
        assert all(f"\n  {field} = {{" in entry for field in ("title", "author", "year")), key
