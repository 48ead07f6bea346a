"""Files as the usual programs write them: each is read as meant, or refused with what then reads it as meant.

That is a flag, or a command that writes the file in another way; the test tries every one that a message suggests.

A case is a name, a content and what is meant: the kind and the first row.
"""

# ruff: noqa: E501 - a case is one line
import contextlib
import csv
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from small_files import delimited, put

from contrastive_st import text_format
from contrastive_st.data import read_examples, read_texts
from contrastive_st.errors import InputError
from contrastive_st.scripts.arguments import DataArguments
from contrastive_st.scripts.parser import TrainingParser

TEXTS = [f"Où est le café numéro {n}, près de la forêt ?" for n in ("un", "deux", "trois", "quatre", "cinq", "six")]
OTHERS = [f"Le café {n} est très près; à côté de l'église" for n in ("rouge", "bleu", "vert", "noir", "blanc", "gris")]
WRONG = [f"Nous allons à la gare {n}" for n in ("hier", "demain", "lundi", "mardi", "samedi", "toujours")]
SCORES, CLASSES, RATINGS = (
    ["0.5", "0.25", "1", "0", "0.75", "0.5"],
    ["chat", "chien"] * 3,
    ["4.5", "1", "3", "5", "2", "0"],
)
PAIR, TRIPLET = (TEXTS[0], OTHERS[0]), (TEXTS[0], OTHERS[0], WRONG[0])


def table(**columns):
    """Rows of cells by column."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def headerless(rows, delimiter):
    return delimited(rows, delimiter, "utf-8").decode().partition("\n")[2].encode()


KNOWN = {
    "pairs": (table(anchor=TEXTS, positive=OTHERS), PAIR),
    "triplets": (table(query=TEXTS, positive=OTHERS, hard_neg=WRONG), TRIPLET),
    "scored_pairs": (table(sentence1=TEXTS, sentence2=OTHERS, score=SCORES), (*PAIR, 0.5)),
    "labelled_pairs": (table(premise=TEXTS, hypothesis=OTHERS, label=["0", "1"] * 3), (*PAIR, 0)),
    "labelled_texts": (table(text=TEXTS, label=CLASSES), (TEXTS[0], 0)),
    "texts": (table(id=list("abcdef"), text=TEXTS), (TEXTS[0],)),
}
UNKNOWN = {
    "pairs": (table(left=TEXTS, right=OTHERS), PAIR),
    "triplets": (table(one=TEXTS, two=OTHERS, three=WRONG), TRIPLET),
    "scored_pairs": (table(left=TEXTS, right=OTHERS, same=SCORES), (*PAIR, 0.5)),
    "labelled_texts": (table(said=TEXTS, animal=CLASSES), (TEXTS[0], 0)),
    "texts": (table(said=TEXTS), (TEXTS[0],)),
}
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CASES = []
for delimiter, words in DELIMITERS.items():
    for kind, (rows, first) in KNOWN.items():
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
            CASES.append((f"{words}_{kind}_{encoding}.csv", delimited(rows, delimiter, encoding), kind, first))
    for kind, (rows, first) in UNKNOWN.items():
        if len(rows[0]) > 1:
            CASES.append((f"{words}_{kind}_unknown.csv", delimited(rows, delimiter, "utf-8"), kind, first))
            CASES.append((f"{words}_{kind}_without_header.csv", headerless(rows, delimiter), kind, first))
    twice = delimited(KNOWN["pairs"][0], delimiter, "utf-8") * 2
    CASES.append((f"{words}_joined.csv", twice, "pairs", PAIR))
    crlf = delimited(KNOWN["pairs"][0], delimiter, "utf-8").replace(b"\n", b"\r\n")
    CASES.append((f"{words}_crlf.csv", crlf, "pairs", PAIR))
for delimiter, name in {"^": "carets", "~": "tildes", "\x01": "hive"}.items():
    for kind, (rows, first) in KNOWN.items():
        if kind in ("pairs", "scored_pairs", "labelled_texts"):
            CASES.append((f"{name}_{kind}.csv", delimited(rows, delimiter, "utf-8"), kind, first))
for form in (".json", ".jsonl", ".parquet", ".jsonl.gz"):
    for kind, (rows, first) in {**KNOWN, **{f"{kind} unknown": own for kind, own in UNKNOWN.items()}}.items():
        if not (kind == "scored_pairs unknown" and form == ".parquet"):
            CASES.append((f"{kind.replace(' ', '_')}{form}", rows, kind.partition(" ")[0], first))
EXTRA = {
    "note": (WRONG, "pairs", PAIR), "rating": (RATINGS, "scored_pairs", (*PAIR, 0.9)),
    "relevance": (["1", "0"] * 3, "scored_pairs", (*PAIR, 1.0)), "votes": (["17", "230"] * 3, "pairs", PAIR),
    "duplicate": (["yes", "no"] * 3, "labelled_pairs", (*PAIR, 1)), "found_at": (["https://a.org/a"] * 6, "pairs", PAIR),
    "day": (["2026-11-28"] * 6, "pairs", PAIR), "split": (["train"] * 6, "pairs", PAIR),
}  # fmt: skip
for name, (cells, kind, first) in EXTRA.items():
    for form in (".csv", ".jsonl", ".parquet"):
        CASES.append((f"extra_{name}{form}", table(question=TEXTS, answer=OTHERS, **{name: cells}), kind, first))
PASSAGE = lambda text: [{"docid": "1", "title": "", "text": text}]
OF_TOOLS = {
    "tevatron.jsonl": [{"query_id": "1", "query": a, "positive_passages": PASSAGE(b), "negative_passages": PASSAGE(c)} for a, b, c in zip(TEXTS, OTHERS, WRONG, strict=True)],
    "dpr.json": [{"question": a, "answers": ["x"], "positive_ctxs": PASSAGE(b), "hard_negative_ctxs": PASSAGE(c)} for a, b, c in zip(TEXTS, OTHERS, WRONG, strict=True)],
    "flag_embedding.jsonl": [{"query": a, "pos": [b], "neg": [c], "prompt": "p"} for a, b, c in zip(TEXTS, OTHERS, WRONG, strict=True)],
    "lists.jsonl": "".join(json.dumps(row) + "\n" for row in zip(TEXTS, OTHERS, WRONG, strict=True)),
    "labeled.jsonl": [{"anchor": a, "positive": [b, c], "labels": [1, 0]} for a, b, c in zip(TEXTS, OTHERS, WRONG, strict=True)],
    "pandas_lists.csv": pd.DataFrame({"query": TEXTS, "pos": [[b] for b in OTHERS], "neg": [[c] for c in WRONG]}).to_csv(index=False),
}  # fmt: skip
CASES += [(name, content, "triplets", TRIPLET) for name, content in OF_TOOLS.items()]
MARGINS = table(query=TEXTS, positive=OTHERS, negative=WRONG, label=RATINGS)
CASES += [
    ("fasttext.txt", "".join(f"__label__{c} {t}\n" for c, t in zip(CLASSES, TEXTS, strict=True)), "labelled_texts", (TEXTS[0], 0)),
    ("sets.jsonl", [{"set": [a, b]} for a, b in zip(TEXTS, OTHERS, strict=True)], "pairs", PAIR),
    ("spacy.jsonl", [{"text": t, "label": c} for t, c in zip(TEXTS, CLASSES, strict=True)], "labelled_texts", (TEXTS[0], 0)),
    ("studio.json", [{"id": 1, "data": {"text": t}, "annotations": [{"result": [{"from_name": "label", "value": {"choices": [c]}}]}]} for t, c in zip(TEXTS, CLASSES, strict=True)], "labelled_texts", (TEXTS[0], 0)),
    ("index_of_pandas.csv", pd.DataFrame(KNOWN["pairs"][0]).to_csv(), "pairs", PAIR),
    ("trailing.csv", "anchor,positive,,\n" + "".join(f'"{a}","{b}",,\n' for a, b in zip(TEXTS, OTHERS, strict=True)), "pairs", PAIR),
    ("sep.csv", b"sep=|\n" + delimited(KNOWN["pairs"][0], "|", "utf-8"), "pairs", PAIR),
    ("above.csv", b"# May\n" + delimited(KNOWN["pairs"][0], "|", "utf-8"), "pairs", PAIR),
    ("title_above.csv", "Survey of May\n\nanchor;positive;;\n" + "".join(f'"{a}";"{b}";;\n' for a, b in zip(TEXTS, OTHERS, strict=True)), "pairs", PAIR),
    ("sep_unknown.csv", b"sep=;\n" + delimited(UNKNOWN["pairs"][0], ";", "utf-8"), "pairs", PAIR),
    ("old_mac.csv", delimited(KNOWN["pairs"][0], ",", "utf-8").replace(b"\n", b"\r"), "pairs", PAIR),
    ("margins.csv", MARGINS, "scored_candidates", (*TRIPLET, [0.0, -4.5])),
    ("margins.jsonl", [{**row, "label": float(row["label"])} for row in MARGINS], "scored_candidates", (*TRIPLET, [0.0, -4.5])),
    ("graded.csv", table(sentence1=TEXTS, sentence2=OTHERS, label=RATINGS), "scored_pairs", (*PAIR, 0.9)),
    ("beyond.csv", table(sentence1=TEXTS, sentence2=OTHERS, score=RATINGS), "scored_pairs", (*PAIR, 0.9)),
    ("sums.jsonl", [{"question": a, "answer": n} for n, a in enumerate(TEXTS * 4, 30)], "pairs", (TEXTS[0], "30")),
    ("squad.jsonl", [{"question": a, "context": b, "answers": {"text": ["x"], "answer_start": [1]}} for a, b in zip(TEXTS, OTHERS, strict=True)], "pairs", PAIR),
    ("two_anchors.csv", table(query=TEXTS, question=WRONG, positive=OTHERS), "pairs", PAIR),
    ("word_first.csv", "positive,great film of the year\nnegative,bad film of the year\npositive,good film of the year\n" * 2, "labelled_texts", ("great film of the year", 1)),
    ("spaces.csv", table(**{"Question 1": TEXTS, "Question 2": OTHERS}), "pairs", PAIR),
    ("lines.txt", "\n".join(TEXTS), "texts", (TEXTS[0],)),
    ("snli.txt", delimited(KNOWN["labelled_pairs"][0], "\t", "utf-8"), "labelled_pairs", (*PAIR, 0)),
]  # fmt: skip

# Other programs: pandas with escapes, R, survey tools, drawn tables, spreadsheets with a decimal comma, joined files
SAID = [f'Il dit "{word}", puis il part' for word in ("un", "deux", "trois", "quatre", "cinq", "six")]
SAID_PAIRS, SAID_FIRST = pd.DataFrame({"anchor": SAID, "positive": OTHERS}), (SAID[0], OTHERS[0])
BROKEN = [f"Deux lignes\npour le {word}" for word in ("un", "deux", "trois", "quatre", "cinq", "six")]


def escaped(delimiter=",", **options):
    return SAID_PAIRS.to_csv(sep=delimiter, index=False, escapechar="\\", **{"doublequote": False, **options})


def in_quotes(rows, delimiter, mark='"'):
    return "".join(delimiter.join(f"{mark}{cell}{mark}" for cell in row) + "\n" for row in rows)


def drawn(left, right, around="", line="-+-"):
    cells = [left.join(["anchor", "positive"]), *map(left.join, zip(TEXTS, OTHERS, strict=True))]
    body = [f"{around}{cell}{around[::-1]}" for cell in cells]
    return "\n".join([body[0], line, *body[1:], right])


ROWS = list(zip(TEXTS, OTHERS, strict=True))
BY_ROW = [(str(number), *row) for number, row in enumerate(ROWS, 1)]
SHEETS = [delimited(table(**{a: TEXTS, b: OTHERS})) for a, b in (("anchor", "positive"), ("question", "answer"))]
MARK = "\ufeff".encode()
FRAME = pd.DataFrame(KNOWN["pairs"][0])
COMMAS = [cell.replace(".", ",") for cell in SCORES]
CASES += [
    ("escaped_quotes.csv", escaped(), "pairs", SAID_FIRST),
    ("escaped_quotes.tsv", escaped("\t"), "pairs", SAID_FIRST),
    ("escaped_commas.csv", escaped(quoting=csv.QUOTE_NONE), "pairs", SAID_FIRST),
    ("doubled_backslash.csv", SAID_PAIRS.replace('"', '\\\\"', regex=True).to_csv(index=False), "pairs", (SAID[0].replace('"', '\\"'), OTHERS[0])),
    ("spark.csv", "anchor,positive\n" + "".join('"' + a.replace('"', '\\"') + '"' + f",C:\\dir\\{b}\n" for a, b in zip(SAID, OTHERS, strict=True)), "pairs", (SAID[0], f"C:\\dir\\{OTHERS[0]}")),
    ("spark_letters.csv", "anchor,positive\n" + "".join('"' + a.replace('"', '\\"') + '"' + f",C:\\new\\{b}\n" for a, b in zip(SAID, OTHERS, strict=True)), "pairs", (SAID[0], f"C:\\new\\{OTHERS[0]}")),
    ("copy_of_postgresql.tsv", "anchor\tpositive\tnote\n" + "".join(f"{a}\t\"{b}\"\t\\N\n".replace("\npour", "\\npour") for a, b in zip(BROKEN, OTHERS, strict=True)), "pairs", (BROKEN[0], f'"{OTHERS[0]}"')),
    ("mysql.tsv", "anchor\tpositive\n" + "".join(f"{a}\t{b}\n".replace("\npour", "\\npour") for a, b in zip(BROKEN, OTHERS, strict=True)), "pairs", (BROKEN[0], OTHERS[0])),
    ("sqlite_quote.csv", in_quotes([("anchor", "positive"), *ROWS], ",", "'").replace("l'", "l"), "pairs", (TEXTS[0], OTHERS[0].replace("l'", "l"))),
    ("sqlite_list.csv", drawn("|", "", line="").replace("\n\n", "\n"), "pairs", PAIR),
    ("psql.csv", drawn(" | ", "(6 rows)", " ", "----+----"), "pairs", PAIR),
    ("psql_unaligned.csv", drawn("|", "(6 rows)", line="").replace("\n\n", "\n"), "pairs", PAIR),
    ("psql_one_column.csv", "\n".join(["text", *TEXTS, "(6 rows)"]), "texts", (TEXTS[0],)),
    ("markdown.csv", drawn(" | ", "", "| ", "|---|---|"), "pairs", PAIR),
    ("two_headers.csv", b"Frage,Antwort\n" + SHEETS[0], "pairs", PAIR),
    ("joined_other_names.csv", SHEETS[0] + SHEETS[1], "pairs", PAIR),
    ("joined_marks.csv", (MARK + SHEETS[0]) * 2, "pairs", PAIR),
    ("qualtrics.csv", "Q1,Q2\nFirst?,Second?\n" + in_quotes([['{""ImportId"":""Q1""}'] * 2, *ROWS], ","), "pairs", PAIR),
    ("surveymonkey.csv", "Respondent ID,What is it?,Why?\n,Open-Ended Response,Open-Ended Response\n" + in_quotes(BY_ROW, ","), "pairs", PAIR),
    ("google_forms.csv", in_quotes([("Timestamp", "Your question?", "Your answer?"), *[("2026/11/28 9:31:07 AM GMT+1", *row) for row in ROWS]], ","), "pairs", PAIR),
    ("write_csv_of_r.csv", in_quotes([("", "anchor", "positive"), *BY_ROW], ","), "pairs", PAIR),
    ("write_table_of_r.csv", in_quotes([("anchor", "positive"), *BY_ROW], ","), "pairs", PAIR),
    ("write_table_of_r.tsv", in_quotes([("anchor", "positive"), *BY_ROW], "\t"), "pairs", PAIR),
    ("write_table_of_r.txt", in_quotes([("anchor", "positive"), *BY_ROW], " "), "pairs", PAIR),
    ("row_names_of_r.tsv", in_quotes([("left", "right"), *[(f"row {number}", *row) for number, *row in BY_ROW]], "\t"), "pairs", PAIR),
    ("quotes_of_r.tsv", in_quotes([("anchor", "positive"), *[(a.replace('"', '\\"'), b) for a, b in zip(SAID, OTHERS, strict=True)]], "\t"), "pairs", SAID_FIRST),
    ("excel.tsv", "anchor\tpositive\n" + "".join(f'"{a}"\t{b}\n' for a, b in ROWS), "pairs", PAIR),
    ("all_quoted.tsv", "anchor\tpositive\n" + in_quotes(ROWS, "\t"), "pairs", PAIR),
    ("quotations.tsv", "anchor\tpositive\n" + "".join(f'"{a}"\t{b.replace(";", ",")}\n' for a, b in ROWS), "pairs", (f'"{TEXTS[0]}"', OTHERS[0].replace(";", ","))),
    ("mysql_table.csv", "+---+---+\n" + drawn(" | ", "+---+---+", "| ", "+---+---+"), "pairs", PAIR),
    ("quotes_after_blanks.csv", in_quotes([("anchor", "positive"), *ROWS], ", "), "pairs", PAIR),
    ("missing_of_stata.csv", table(sentence1=TEXTS, sentence2=OTHERS, score=[*SCORES[:5], "."]) * 6, "scored_pairs", (*PAIR, 0.5)),
    ("dashes.csv", table(anchor=TEXTS, positive=["---", *OTHERS[1:]]), "pairs", (TEXTS[0], "---")),
    ("index_label.csv", FRAME.to_csv(index_label=False), "pairs", PAIR),
    ("orient_index.json", FRAME.to_json(orient="index"), "pairs", PAIR),
    ("orient_index_unknown.json", pd.DataFrame(UNKNOWN["pairs"][0]).to_json(orient="index"), "pairs", PAIR),
    ("orient_index_named.json", FRAME.set_axis([f"row {n}" for n in range(6)]).to_json(orient="index"), "pairs", PAIR),
    *((f"orient_{orient}.json", FRAME.to_json(orient=orient), "pairs", PAIR) for orient in ("split", "records", "columns", "values", "table")),
    ("decimal_commas.csv", delimited(table(sentence1=TEXTS, sentence2=OTHERS, score=COMMAS), ";"), "scored_pairs", (*PAIR, 0.5)),
    ("decimal_commas_unknown.csv", delimited(table(left=TEXTS, right=OTHERS, same=COMMAS), ";"), "scored_pairs", (*PAIR, 0.5)),
    ("decimal_commas_beyond.csv", delimited(table(sentence1=TEXTS, sentence2=OTHERS, score=[cell.replace(".", ",") for cell in RATINGS]), ";"), "scored_pairs", (*PAIR, 0.9)),
    ("decimal_commas.jsonl", table(sentence1=TEXTS, sentence2=OTHERS, score=COMMAS), "scored_pairs", (*PAIR, 0.5)),
    ("decimal_commas.parquet", table(sentence1=TEXTS, sentence2=OTHERS, score=COMMAS), "scored_pairs", (*PAIR, 0.5)),
    ("decimal_commas_margin.csv", delimited([{**row, "label": row["label"].replace(".", ",")} for row in MARGINS], ";"), "scored_candidates", (*TRIPLET, [0.0, -4.5])),
    ("twice.csv", delimited(table(question=TEXTS, answer=OTHERS, other=WRONG)).replace(b"other", b"answer", 1), "pairs", PAIR),
    ("commas.txt", delimited(table(question=TEXTS, answer=OTHERS)), "pairs", PAIR),
    ("unicode_text.txt", delimited(KNOWN["pairs"][0], "\t", "utf-16"), "pairs", PAIR),
]  # fmt: skip
# Databases, spreadsheets, survey and labelling tools, exports of web services
AS_ROWS = table(anchor=TEXTS, positive=OTHERS)
IN_BOX = "".join(f"│ {a:<45} │ {b:<45} │\n" for a, b in [("anchor", "positive"), *ROWS]).replace(
    "│\n", f"│\n├{'─' * 47}┼{'─' * 47}┤\n", 1
)
IN_COLUMNS = "".join(f"{a:<45}  {b:<45}\n" for a, b in [("anchor", "positive"), ("-" * 45, "-" * 45), *ROWS])
DUMPED = [cell.replace(" numéro", "\nnuméro") for cell in TEXTS]
BELOW = lambda row, rows=AS_ROWS: delimited(rows).decode().replace("\r\n", f"\r\n{row}\r\n", 1)
NESTED = {
    "data": [
        {"title": "T", "paragraphs": [{"context": b, "qas": [{"question": a, "answers": [{"text": "x"}]}]}]}
        for a, b in ROWS
    ]
}
CASES += [
    ("qualtrics_words.csv", BELOW("Start Date,End Date,A question,An answer", table(StartDate=SCORES, EndDate=SCORES, anchor=TEXTS, positive=OTHERS)), "pairs", PAIR),
    ("types.csv", BELOW("string,string,float", KNOWN["scored_pairs"][0]), "scored_pairs", (*PAIR, 0.5)),
    ("types_of_sql.csv", BELOW("VARCHAR(255),TEXT"), "pairs", PAIR),
    ("types_after_signs.csv", BELOW("#string,#string"), "pairs", PAIR),
    ("comment_below.csv", BELOW("# exported in May"), "pairs", PAIR),
    ("comment_with_a_comma.csv", BELOW("# exported in May, by me"), "pairs", PAIR),
    ("total.csv", delimited(KNOWN["scored_pairs"][0]) + b"Total,6\r\n", "scored_pairs", (*PAIR, 0.5)),
    ("total_of_labels.csv", delimited(KNOWN["labelled_texts"][0]) + b"Grand Total,6\r\n", "labelled_texts", (TEXTS[0], 0)),
    ("equals.csv", "anchor,positive\n" + "".join(f'="{a}","=""{b}"""\n'.replace(", ", " ") for a, b in ROWS), "pairs", (TEXTS[0].replace(", ", " "), OTHERS[0])),
    ("equals_in_quotes.csv", delimited([{name: f'="{cell}"' for name, cell in row.items()} for row in AS_ROWS]), "pairs", PAIR),
    ("errors_of_excel.csv", delimited([*AS_ROWS, {"anchor": "#REF!", "positive": "x"}, {"anchor": "x", "positive": "#NAME?"}]), "pairs", PAIR),
    ("sqlite_box.txt", f"┌{'─' * 47}┬{'─' * 47}┐\n{IN_BOX}└{'─' * 47}┴{'─' * 47}┘\n", "pairs", PAIR),
    ("sqlite_box.csv", IN_BOX, "pairs", PAIR),
    ("sqlite_column.txt", IN_COLUMNS, "pairs", PAIR),
    ("sqlite_column.csv", IN_COLUMNS, "pairs", PAIR),
    ("mysql_table.txt", "+---+---+\n" + drawn(" | ", "+---+---+", "| ", "+---+---+"), "pairs", PAIR),
    ("psql.txt", drawn(" | ", "(6 rows)", " ", "----+----"), "pairs", PAIR),
    ("markdown.txt", drawn(" | ", "", "| ", "|---|---|"), "pairs", PAIR),
    ("access.txt", in_quotes([("anchor", "positive"), *ROWS], ";"), "pairs", PAIR),
    ("dump_of_sql.csv", delimited(table(anchor=[cell.replace("\n", "\\n") for cell in DUMPED], positive=OTHERS)), "pairs", (DUMPED[0], OTHERS[0])),
    ("dump_in_quotes.csv", in_quotes([("anchor", "positive"), *((a.replace("\n", "\\n"), b) for a, b in zip(DUMPED, OTHERS, strict=True))], ","), "pairs", (DUMPED[0], OTHERS[0])),
    ("percents.csv", table(sentence1=TEXTS, sentence2=OTHERS, score=["85%", "10%", "5%", "99%", "50%", "0%"]), "scored_pairs", (*PAIR, 0.85)),
    ("percents_unknown.csv", table(left=TEXTS, right=OTHERS, match=["85%", "10%", "5%", "99%", "50%", "0%"]), "scored_pairs", (*PAIR, 0.85)),
    ("two_levels.json", json.dumps({"response": {"total": 6, "rows": AS_ROWS}}), "pairs", PAIR),
    ("several_tables.json", json.dumps({"train": AS_ROWS, "test": AS_ROWS[:1]}), "pairs", PAIR),
    ("repr.jsonl", "".join(f"{row}\n" for row in AS_ROWS), "pairs", PAIR),
    ("repr.txt", "".join(f"{row}\n" for row in AS_ROWS), "pairs", PAIR),
    ("lines_of_json.txt", "".join(f"{json.dumps(row)}\n" for row in AS_ROWS), "pairs", PAIR),
    ("list_of_json.txt", json.dumps(AS_ROWS, indent=1), "pairs", PAIR),
    ("squad_nested.json", json.dumps(NESTED), "pairs", PAIR),
    ("groups.jsonl", [{"topic": "T", "pairs": [row]} for row in AS_ROWS], "pairs", PAIR),
    ("elastic.jsonl", [{"_id": str(n), "_source": row} for n, row in enumerate(AS_ROWS)], "pairs", PAIR),
    ("mongo.jsonl", [{"_id": {"$oid": "a" * 24}, **row} for row in AS_ROWS], "pairs", PAIR),
    ("doccano.jsonl", [{"id": n, "text": a, "label": [c]} for n, (a, c) in enumerate(zip(TEXTS, CLASSES, strict=True))], "labelled_texts", (TEXTS[0], 0)),
    ("alpaca.json", [{"instruction": a, "input": "", "output": b} for a, b in ROWS], "pairs", PAIR),
    ("sql_server.txt", f"{IN_COLUMNS}\n(6 rows affected)\n", "pairs", PAIR),
    ("oracle.csv", f"{IN_COLUMNS}\n6 rows selected.\n", "pairs", PAIR),
    ("printed_by_pandas.txt", FRAME.to_string(), "pairs", PAIR),
    ("restructured_text.txt", "{1}\n{0}\n{1}\n{2}".format(*IN_COLUMNS.split("\n", 2)), "pairs", PAIR),
    ("colons.csv", "anchor:positive\n" + "".join(f"{a}:{b}\n" for a, b in ROWS), "pairs", PAIR),
    ("rows_in_quotes.csv", "".join(f'"{a};{b}"\n'.replace("; ", ", ") for a, b in [("anchor", "positive"), *ROWS]), "pairs", (TEXTS[0], OTHERS[0].replace("; ", ", "))),
    ("words_below.csv", BELOW("The question,The answer,0=no 1=yes", KNOWN["labelled_pairs"][0]), "labelled_pairs", (*PAIR, 0)),
    ("scores_in_words_below.csv", BELOW("The question,The answer,from 0 to 1", KNOWN["scored_pairs"][0]), "scored_pairs", (*PAIR, 0.5)),
    ("date_below.csv", delimited(AS_ROWS) + b"Generated on May 1\r\n", "pairs", PAIR),
    ("score_last_without_header.csv", "one,uno,0.5\ntwo,due,0.25\nthree,tre,1\n" * 2, "scored_pairs", ("one", "uno", 0.5)),
    ("small_letters_without_header.csv", "how to sort a list,sorting a python list\npython dict order,order of dict keys\nloops,for loops\n" * 2, "pairs", ("how to sort a list", "sorting a python list")),
    ("class_last_without_header.tsv", "that 's far too tragic to merit\tbad\nof saucy\tgood\na depressed teenager\tbad\n" * 2, "labelled_texts", ("that 's far too tragic to merit", 0)),
    ("han_without_header.csv", "今天天气很好,外面阳光明媚\n我喜欢读书,阅读是我的爱好\n他在跑步,他正在锻炼身体\n" * 2, "pairs", ("今天天气很好", "外面阳光明媚")),
    ("short_cells.csv", "a,b\n" + "x,y\nz,w\nv,u\n" * 2, "pairs", ("x", "y")),
    ("numbered_columns.csv", "0,1\n" + "Two cats sleep.,Cats are asleep.\nOne dog runs.,A dog is running.\nIt rains.,Rain.\n" * 2, "pairs", ("Two cats sleep.", "Cats are asleep.")),
    ("long_names.csv", "Product Name,Long Description\n" + "Red shoes,Shoes for runners who like red\nBag,A bag with two handles\nHat,A hat\n" * 2, "pairs", ("Red shoes", "Shoes for runners who like red")),
    ("score_first.csv", "how close (0-5),left,right\n" + "3,Two cats sleep.,Cats are asleep.\n0,One dog runs.,A cat is running.\n5,It rains.,Rain.\n" * 2, "scored_pairs", ("Two cats sleep.", "Cats are asleep.", 0.6)),
    *((f"title_{name}.csv", f"{title}\n{delimited(AS_ROWS, ';').decode()}".encode(name), "pairs", PAIR) for name, title in (("utf-16", "May"), ("utf-16-le", "May"), ("cp1252", "Été"))),
    ("markdown_cp1252.csv", drawn(" | ", "", "| ", "|---|---|").encode("cp1252"), "pairs", PAIR),
    ("repr_cp1252.jsonl", "".join(f"{row}\n" for row in AS_ROWS).encode("cp1252"), "pairs", PAIR),
    ("rows_in_quotes_utf-16.csv", "".join(f'"{a};{b}"\r\n'.replace("; ", ", ") for a, b in [("anchor", "positive"), *ROWS]).encode("utf-16"), "pairs", (TEXTS[0], OTHERS[0].replace("; ", ", "))),
    ("old_mac_line_ends.csv", delimited(table(anchor=DUMPED, positive=OTHERS)).replace(b"\r\n", b"\r"), "pairs", (DUMPED[0], OTHERS[0])),
    ("carriage_return.csv", "anchor,positive\n" + "".join(f"{a},{b}\n".replace(", ", "\r") for a, b in ROWS), "pairs", tuple(cell.replace(", ", " ") for cell in PAIR)),
    ("outfile_of_mysql.tsv", "anchor\tpositive\n" + "".join(f"{a}\t{b}\n" for a, b in [(cell.replace("\n", "\\\n") + "\\\t", b) for cell, b in zip(DUMPED, OTHERS, strict=True)]) + "c\t\\N\n", "pairs", (DUMPED[0], OTHERS[0])),
    ("escaped_unquoted.csv", "anchor,positive\n" + "".join('"{}",{}\n'.format(b, a.replace(", ", " ").replace('"', '\\"')) for a, b in zip(SAID, OTHERS, strict=True)), "pairs", (OTHERS[0], SAID[0].replace(", ", " "))),
    ("excel_quotes.txt", "anchor\tpositive\r\n" + "".join(f'"{a}"\t"""{b}"""\r\n' for a, b in ROWS), "pairs", (TEXTS[0], f'"{OTHERS[0]}"')),
    ("excel_tabs.txt", "anchor\tpositive\r\n" + "".join(f'"{a}\tx"\t{b}\r\n' for a, b in ROWS), "pairs", (f"{TEXTS[0]}\tx", OTHERS[0])),
    ("moses.tsv", "".join(f"{a}\t{b}\n" for a, b in ROWS), "pairs", PAIR),
]  # fmt: skip
COMMAND = re.compile(r"run ((?:cat|iconv|jq|perl|python|sed|tr) .+? > (?:'[^']+'|\S+?))(?=[;,]|$)")
FLAGS = re.compile(r"--(?:columns|header|delimiter|encoding|score_range|escapes|decimal) .+?(?=, or |; |$)")


@pytest.fixture(autouse=True)
def _no_flags():
    yield
    text_format.set_text_format(text_format.TextFormat())


def read(path, flags):
    """The kind, the first row and the number of rows in sixes, as the command line reads them with these flags."""
    text_format.set_text_format(text_format.TextFormat())
    (args,) = TrainingParser([DataArguments]).parse(["--train_file", str(path), *flags])
    scale = args.score_range and tuple(args.score_range)
    rows, roles = read_examples(args.train_file, args.columns, scale=scale)
    return roles.kind, tuple(rows[0].values()), len(rows) / 6 % 1  # a header that is read as a row is one more


def suggested(error):
    """The flags that a question suggests, as a shell takes them; a name of a column that holds ", or" is not one."""
    for flags in FLAGS.findall(str(error)):
        with contextlib.suppress(ValueError):
            yield shlex.split(flags)


@pytest.mark.parametrize(("name", "content", "kind", "first"), CASES, ids=[case[0] for case in CASES])
def test_it_is_read_as_meant_or_a_flag_of_the_question_reads_it(name, content, kind, first, tmp_path):
    path, answers, meant = put(tmp_path, name, content), [], (kind, first, 0.0)
    tried = [(path, [], None)]
    while tried and meant not in answers:
        source, flags, command = tried.pop(0)
        if command:
            subprocess.run(command, shell=True, check=True)
            source = Path(shlex.split(command)[-1])
        try:
            answers.append(read(source, flags))
        except InputError as error:  # after a delimiter, the columns may be asked for
            again = [[*flags, *own] for own in suggested(error) if len(flags) < 9 and not set(own) <= set(flags)]
            tried += [(source, own, None) for own in again]
            tried += [(source, flags, own) for own in COMMAND.findall(str(error))]
            if "run jq" in str(error) and not shutil.which("jq"):
                pytest.skip("jq is not installed")
        if not flags and source == path and answers:
            break
    assert meant in answers


def test_python_takes_what_the_command_takes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("anchor:positive\nпривет:да\n".encode("cp1251"))
    given = {"encoding": "cp1251", "delimiter": ":"}
    assert read_examples(path, **given)[0][0] == {"anchor": "привет", "positive": "да"}
    assert read_texts(path, ["positive"], **given)["positive"] == ["да"]
    with pytest.raises(InputError, match="--delimiter"):
        read_examples(path)
    path.write_text(r"question;answer;score~why \"so\"?;so;0,5~".replace("~", "\n"))
    rows, _ = read_examples(path, escapes=True, decimal="comma")
    assert tuple(rows[0].values()) == ('why "so"?', "so", 0.5)
    (tmp_path / "b.jsonl").write_text('{"question": "why?", "answer": "so", "score": 0.25}\n')  # has no decimal mark
    for files, scores in ((["a.csv", "b.jsonl"], [0.5, 0.25]), (["b.jsonl", "a.csv"], [0.25, 0.5])):
        rows, _ = read_examples([str(tmp_path / file) for file in files], escapes=True, decimal="comma")
        assert rows["score"][:] == scores
