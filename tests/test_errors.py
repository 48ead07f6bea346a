"""What the command line says of an error: a line for input and for what a library says, a traceback for a defect."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from safetensors import deserialize
from transformers import TrainingArguments

from contrastive_st.commands import run
from contrastive_st.errors import InputError, about, one_line


def defect():
    raise KeyError("x")


def of_a_library():
    with about("rows.json"):
        json.loads("{")


def of_tensors():
    with about("a.safetensors"):
        deserialize(b"nonsense")


def of_our_code_about_a_file():
    with about("config.json"):
        {}["model_type"]


def caught(job):
    with pytest.raises(Exception) as found:  # noqa: PT011
        job()
    return found.value


@pytest.mark.parametrize(("job", "start"), [
    (of_a_library, "rows.json: json: Expecting property name"),
    (of_tensors, "a.safetensors: safetensors: Error while deserializing"),
    (lambda: pa.array(["a"]).cast(pa.int64()), "pyarrow: Failed to parse"),
    (lambda: TrainingArguments("out", eval_strategy="never"), "transformers: never is not"),
    (of_our_code_about_a_file, "config.json: KeyError: 'model_type'"),
    (lambda: Path("/no/such/file").read_bytes(), "[Errno 2] No such file"),
])  # fmt: skip
def test_what_a_library_says_is_one_line(job, start, capsys):
    assert one_line(caught(job)).startswith(start)
    assert run(job) == 2
    assert capsys.readouterr().err.startswith(f"error: {start}")


def test_the_type_stays_and_the_innermost_name_holds():
    with pytest.raises(json.JSONDecodeError) as found, about("outer"):
        of_a_library()
    assert one_line(found.value).startswith("rows.json: ")
    with pytest.raises(InputError) as found, about("outer"):
        raise InputError("said already")
    assert one_line(found.value) == "said already"


def test_a_defect_keeps_its_traceback():
    assert one_line(caught(defect)) == ""
    with pytest.raises(KeyError):
        run(defect)
