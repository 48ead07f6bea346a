"""How many files a reader passes from the option --model_name_or_path to the opened model."""

import sys
from pathlib import Path

import contrastive_st
from contrastive_st import BertForCL, scripts
from contrastive_st.scripts.arguments import EncoderArguments

ROOT = str(Path(contrastive_st.__file__).parent)


def functions_that_get(name, call):
    """The functions of the package, by file, that a call enters with the name, or with what was found under it."""
    found = set()

    def profile(frame, event, arg):
        place, function = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and place.startswith(ROOT) and not function.startswith("<"):
            values = [frame.f_locals[key] for key in frame.f_code.co_varnames if key in frame.f_locals]
            if any(
                name in repr(value)
                for value in values
                if isinstance(value, (str, Path)) or type(value).__name__ == "Checkpoint"
            ):
                found.add((place[len(ROOT) + 1 :], function))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_the_way_of_a_name_to_its_model_is_short(tmp_path, bert_config, tokenizer):
    BertForCL(bert_config, pooling="mean").save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    args = EncoderArguments(model_name_or_path=str(tmp_path / "base"))
    scripts.open_encoder(args, [])  # what is imported on the way is imported now
    entered = functions_that_get(str(tmp_path / "base"), lambda: scripts.open_encoder(args, []))
    files = {"scripts/encoder.py", *(file for file, _ in entered)}
    text = Path(__file__).parents[2].joinpath("docs", "design.md").read_text(encoding="utf-8")
    listed = text.split("## From --model_name_or_path to the opened model")[1].split("## ")[0]
    assert {file for file in files if file not in listed} == set()
    assert len(files) <= 8
    assert len(entered) < 30
