"""docs/train.md shows what the command answers to ten wrong files: these are the files, and their answers."""

import re
from pathlib import Path

import pytest
from refusals import error_of
from small_files import put

PAGE = Path(__file__).parents[2] / "docs" / "train.md"
SQUAD = {"id": "1", "title": "Tides", "context": "The moon pulls.", "question": "Why?", "answers": {"text": ["it"]}}
#: the first cell of a row of the page: the file
WRONG = {
    "`left,right`": ("a.csv", "left,right\nWhy is it?,It just is.\nHow?,Well.\n"),
    "`question,answer,rating`": ("a.csv", "question,answer,rating\nwhy?,so,5\nwho?,me,1\nhow?,well,3\n"),
    "`anchor,positive,note`": ("a.csv", "anchor,positive,note\nwhy?,so,to be seen\nwho?,me,not yet\n"),
    '`{"question": ..., "context": ..., "answers": ...}`': ("a.jsonl", [SQUAD] * 3),
    "`query,positive,negative,label` with one number": ("a.csv", "query,positive,negative,label\nwhy?,so,no,2.5\n"),
    "`sentence1,sentence2,score` with 4.5": ("a.csv", "sentence1,sentence2,score\nx,y,4.5\nz,y,1\n"),
    "`sentence1,sentence2,label` with 2.5": ("a.csv", "sentence1,sentence2,label\nx,y,2.5\nz,y,0.5\n"),
    '`{"question": "1 + 1?", "answer": 2}`': (
        "a.jsonl",
        [{"question": f"{n} + 1?", "answer": n + 1} for n in range(1, 30)],
    ),
    "`anchor^positive`": ("a.csv", "anchor^positive\nwhy?^so\n"),
    "`product\\|price,name`": ("a.csv", "product|price,name\nred shoes|5,shoes\n"),
}


def answers():
    """The rows of the table of the page: the first lines of a file, and the answer as a terminal shows it."""
    table = PAGE.read_text(encoding="utf-8").partition("| first lines | answer |\n|---|---|\n")[2].partition("\n\n")[0]
    for line in table.splitlines():
        file, answer = re.split(r"(?<!\\) \| ", line.strip("| "))
        yield file, answer.replace("`", "").replace("\\|", "|")


def test_the_page_has_all_ten():
    assert [file for file, _ in answers()] == list(WRONG)


@pytest.mark.parametrize(("file", "answer"), answers(), ids=[file for file, _ in answers()])
def test_the_command_answers_as_the_page_says(file, answer, tmp_path, capsys):
    path = put(tmp_path / "folder" / ("a_long_name_" * 20), *WRONG[file])  # no flag to paste is cut
    said = error_of(capsys, "train", "--train_file", path, "--output_dir", tmp_path / "out")
    assert f"{path}" in said
    said = said.partition(str(path))[2].lstrip(":, ")
    assert said.startswith(answer), said
    assert said == answer or said.removeprefix(answer)[0] in ";,", said
