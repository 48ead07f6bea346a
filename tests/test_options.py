"""Options typed once: bounds, messages, flags."""

import argparse
import logging
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from transformers import HfArgumentParser

from contrastive_st import ContrastiveTrainingArguments, InputError, terminal
from contrastive_st.options import (
    Count,
    Finite,
    NotNegative,
    OptionError,
    Options,
    Positive,
    Share,
    add_flags,
    fits,
    in_words,
    option,
    parsed,
)
from contrastive_st.scripts import TrainingParser
from contrastive_st.scripts.arguments import DataArguments

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(("kind", "good", "bad"), [
    (Positive, [1, 0.5, np.float32(2)], [0, -1, NAN, INF, "1", True, None]),
    (NotNegative, [0, 3.5], [-1e-9, NAN, INF]),
    (Finite, [-3, 0.0], [NAN, INF, -INF]),
    (Share, [0, 0.999], [1, -0.1, NAN]),
    (Count, [1, np.int64(7)], [0, 1.5, True, "3"]),
    (Count | None, [None, 2], [0, "a"]),
    (Literal["a", "b"], ["a"], ["c", None, ["a"]]),
    (list[Count], [[], [1, 2], (3,)], [[0], "12", 3]),
    (tuple[Positive, ...] | None, [None, (0.5,)], [(0.5, 0)]),
    (bool, [True], [1, "true"]),
    (str | None, ["x", None], [3]),
    (Path, ["a", Path("b")], [3]),
    (dict, [{}], [None]),
])  # fmt: skip
def test_a_value_fits_its_type_and_bounds(kind, good, bad):
    assert [value for value in good if not fits(value, kind)] == []
    assert [value for value in bad if fits(value, kind)] == []
    assert in_words(kind)


@dataclass
class Search(Options):
    query: list[str] = option("what to look for", positional=True)
    k: Count = option("number of hits", default=10, short="-k")
    model: str | None = option("folder or Hub name")
    exact: bool = option("without the graph", default=False)
    graph: bool = option("with the graph, 100% of it", default=True)
    output: Path = option("a new folder", default=MISSING, short="-o")
    weights: list[Positive] | None = option("one each")
    kind: Literal["csv", "json"] = option("of the output", default="csv")


def read(*argv):
    parser = argparse.ArgumentParser()
    add_flags(parser, Search)
    return parsed(Search, parser.parse_args(list(argv)))


def test_fields_are_flags_and_back():
    assert read("a", "b", "-o", "x") == Search(["a", "b"], output=Path("x"))
    whole = read("a", "--k", "3", "--model", "m", "--exact", "--no_graph", "--output", "x", "--weights", "1", "2.5")
    assert whole == Search(["a"], k=3, model="m", exact=True, graph=False, output=Path("x"), weights=[1.0, 2.5])


def test_a_flag_takes_no_word_that_is_a_position():
    assert read("--exact", "a", "-o", "x").query == ["a"]

    @dataclass
    class Training(Options):
        bf16: bool | None = option("half")
        packed: bool = option("rows", default=True)

    parser = argparse.ArgumentParser()
    add_flags(parser, Training)
    found = [parsed(Training, parser.parse_args(argv)) for argv in ([], ["--bf16"], ["--bf16", "no", "--packed", "0"])]
    assert [(one.bf16, one.packed) for one in found] == [(None, True), (True, True), (False, False)]


@pytest.mark.parametrize("argv", [["-o", "x"], ["a"], ["a", "-o", "x", "--kind", "xml"], ["a", "-o", "x", "-k", "two"]])
def test_what_the_parser_refuses(argv, capsys):
    with pytest.raises(SystemExit):
        read(*argv)
    assert "error" in capsys.readouterr().err


def test_a_message_names_the_flag_on_the_command_line_and_the_argument_in_python():
    with pytest.raises(OptionError, match="--k"):
        read("a", "-o", "x", "-k", "0")
    with pytest.raises(OptionError, match="number"):
        Search(["a"], k=0, output="x")
    with pytest.raises(OptionError, match="--weights"):
        read("a", "-o", "x", "--weights", "1", "-2")


def test_flags_that_are_repeated_and_that_may_be_empty() -> None:
    @dataclass
    class Find(Options):
        query: str = option("what to look for", positional=True)
        filter: list[str] = option("a condition", default=None, action="append")
        metadata: list[str] | None = option("columns", nargs="*")
        strategy: str = option("how", default="top")

    parser = argparse.ArgumentParser()
    add_flags(parser, Find)
    found = parser.parse_args(["--filter", "a", "--filter", "b", "q", "--metadata", "--strategy", "random"])
    assert vars(found) == {"query": "q", "filter": ["a", "b"], "metadata": [], "strategy": "random"}
    assert parser.parse_args(["q"]).strategy == "top"


def test_a_flag_of_a_list_may_be_repeated() -> None:
    @dataclass
    class Judge(Options):
        files: list[str] = option("files", default=("all",))

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser, Judge)
    assert parsed(Judge, parser.parse_args([])) == Judge()
    for given in ("--files a b --files c --files d", "--files a --files b c d"):
        assert parsed(Judge, parser.parse_args(given.split())) == Judge(files=["a", "b", "c", "d"])


def test_the_parser_of_transformers_reads_options_too(tmp_path):
    parser = HfArgumentParser((DataArguments, ContrastiveTrainingArguments))
    flags = ["--train_file", "a.csv", "b.csv", "--chunk_size", "3", "--report_to", "none", "--output_dir"]
    data, training = parser.parse_args_into_dataclasses([*flags, str(tmp_path)])
    assert (data.train_file, data.strict, training.chunk_size) == (["a.csv", "b.csv"], False, 3)


def test_an_option_of_a_file_yields_to_the_command_line(tmp_path):
    (tmp_path / "run.yaml").write_text("train_file: [a.csv, b.csv]\nstrict: true\nmax-train-samples: 3\n")
    (data,) = TrainingParser(DataArguments).parse([str(tmp_path / "run.yaml"), "--train-file", "c.csv"])
    assert (data.train_file, data.strict, data.max_train_samples) == (["c.csv"], True, 3)
    (data,) = TrainingParser(DataArguments).parse(["--train_file", "a", "b", "--train_file", "c"])
    assert data.train_file == ["a", "b", "c"]


@pytest.mark.filterwarnings("ignore:Cannot enable progress bars")
@pytest.mark.parametrize(
    ("content", "flags", "level"),
    [
        ("quiet: true", [], logging.WARNING),
        ("verbose: true\nquiet: false", [], logging.DEBUG),
        ("quiet: false", [], logging.INFO),
        ("quiet: true", ["--verbose"], logging.DEBUG),
    ],
)
def test_a_file_of_options_has_those_of_every_command(content, flags, level, tmp_path, monkeypatch):
    monkeypatch.setattr(terminal, "_level", logging.INFO)
    (tmp_path / "run.yaml").write_text(f"train_file: a.csv\n{content}\n")
    TrainingParser(DataArguments).parse([str(tmp_path / "run.yaml"), *flags])
    assert terminal._level == level
    terminal.set_verbosity(logging.INFO)


@pytest.mark.parametrize(
    ("content", "flags", "words"),
    [
        ("columns: []", [], "run.yaml: columns has an empty list"),
        ("config: other.yaml", [], "run.yaml: config cannot name a further file"),
        ("max-length: 8\nmax_length: 9", [], "run.yaml: max_length is there twice"),
        ("strict: true", ["--config", "other.yaml"], "other.yaml: give one file of options"),
        ("max_lenght: null", [], "unknown argument --max_lenght"),
        ("no_such: false", [], "unknown argument --no_such"),
    ],
)
def test_what_a_file_of_options_cannot_say(content, flags, words, tmp_path):
    (tmp_path / "run.json").write_text('{\n\t"train_file": "a.csv",\n\t"max_train_samples": 3}')
    (data,) = TrainingParser(DataArguments).parse([str(tmp_path / "run.json")])
    assert data.max_train_samples == 3
    (tmp_path / "run.yaml").write_text(f"train_file: a.csv\n{content}\n")
    with pytest.raises(InputError, match=words):
        TrainingParser(DataArguments).parse([str(tmp_path / "run.yaml"), *flags])


def test_a_parser_of_the_user_has_further_arguments_and_defaults(capsys):
    class Own(TrainingParser):
        def __init__(self, kinds):
            super().__init__(kinds)
            self.add_argument("--extra", type=int, default=1)

    training, rest = Own(ContrastiveTrainingArguments).parse(
        ["--extra", "3", "--no_dataloader_drop_last", "--report_to", "none"], {"output_dir": "out", "chunk_size": 8}
    )
    assert (rest.extra, training.dataloader_drop_last, training.chunk_size) == (3, False, 8)
    with pytest.raises(SystemExit):
        Own(ContrastiveTrainingArguments).parse(["--help"], {"chunk_size": 8, "max_steps": 5})
    printed = capsys.readouterr().out
    assert "(default: 8)" in " ".join(printed.split())
    assert "--max_steps=5" in printed
    assert "--adam_beta1" not in printed
