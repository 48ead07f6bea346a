"""Small files and folders as people have them, each with what must happen when it is trained on. One line adds another.

A case is a name, a content (text, bytes, rows that are written in the format of the name, or a folder) and what must
happen: the kind and the first row, or the part of an error that says what to do.
"""

# ruff: noqa: E501 - a case is one line
import datetime
import json
import re
from decimal import Decimal

import datasets
import numpy as np
import pyarrow as pa
import pytest
from refusals import refusal
from small_files import lines, put

from contrastive_st.data import read_examples, tokenize, word_tokenizer
from contrastive_st.data.reading import stream_texts
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.user_data import read_relevant_pairs

PAIR = {"anchor": "why is it so?", "positive": "because it is"}
PAIRS = [
    {"anchor": f"why is it {word}?", "positive": f"because of the {word}"} for word in ("red", "blue", "old", "new")
]
SHEET = "anchor;positive\nwhy, then?;so, because\nwho?;me, of course\n"


def with_column(values, name="n", rows=PAIRS):
    return [{**row, name: value} for row, value in zip(rows * len(values), values, strict=False)]


def structs(kind, rows=3):
    return pa.table(
        {"anchor": [f"why {i}?" for i in range(rows)], "positive": pa.array([kind(i) for i in range(rows)])}
    )


MAP = pa.table({"anchor": ["why?", "who?"], "positive": ["so", "me"],
                "tags": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))})  # fmt: skip
PAIRS_OF_STUDIO = [{"id": i, "data": {"text1": f"one {i}", "text2": f"two {i}"}, "annotations": [
    {"result": [{"from_name": "label", "value": {"choices": ["same" if i % 2 else "other"]}}]}]} for i in range(4)]  # fmt: skip
ARGILLA = [{"id": str(i), "status": "completed", "fields": {"text": f"text {i}"}, "metadata": {}, "suggestions": {},
            "responses": {"label": [{"value": "ab"[i % 2], "user_id": "u"}]}} for i in range(4)]  # fmt: skip
ARGILLA_1 = [
    {"text": None, "inputs": {"text": f"text {i}"}, "prediction": None, "annotation": "ab"[i % 2]} for i in range(4)
]
ARGILLA_FLAT = [{"id": str(i), "text": f"text {i}", "label.responses": ["ab"[i % 2]], "label.responses.users": ["u"],
                 "label.responses.status": ["submitted"], "_server_id": "s"} for i in range(4)]  # fmt: skip
TEVATRON = [{"query_id": str(i), "query": f"why {i}?", "positive_passages": [{"docid": "1", "title": "T", "text": f"so {i}"}],
             "negative_passages": [{"docid": "2", "title": "", "text": f"no {i}"}]} for i in range(3)]  # fmt: skip
FLAG = [{"query": f"why {i}?", "pos": [f"so {i}"], "neg": [f"no {i}", f"not {i}"], "prompt": "Represent:", "type": "x"}
        for i in range(3)]  # fmt: skip
FLAG_SCORES = [{**row, "pos_scores": [0.9], "neg_scores": [0.1, 0.2]} for row in FLAG]
MEDI = [{"query": ["Represent the question:", f"why {i}?"], "pos": ["Represent the answer:", f"so {i}"],
         "neg": ["Represent the answer:", f"no {i}"], "task_name": "t"} for i in range(3)]  # fmt: skip
SQUAD = [{"id": str(i), "title": "T", "context": f"It is so {i}.", "question": f"why {i}?",
          "answers": {"text": [f"so {i}"], "answer_start": [6]}} for i in range(3)]  # fmt: skip
BEIR = {
    "corpus.jsonl": [{"_id": f"d{i}", "title": "T", "text": f"so {i}"} for i in range(3)],
    "queries.jsonl": [{"_id": f"q{i}", "text": f"why {i}?"} for i in range(3)],
    "qrels": {"train.tsv": "query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td2\t1\nq1\td1\t0\n"},
}
TEVATRON_2 = [
    {"query_id": str(i), "query_text": f"why {i}?", "positive_document_ids": [f"d{i}"], "source": None}
    for i in range(3)
]
DPR = [{"question": f"why {i}?", "answers": ["x"], "positive_ctxs": [{"title": "T", "text": f"so {i}", "passage_id": "1"}],
        "negative_ctxs": [], "hard_negative_ctxs": [{"title": "", "text": f"no {i}"}]} for i in range(3)]  # fmt: skip
NESTED = {"version": "1.1", "data": [{"title": f"T {i}", "paragraphs": [{"context": f"It is so {i}.", "qas": [
    {"id": "1", "question": f"why {i}?", "answers": [{"text": "so", "answer_start": 6}]}]}]} for i in range(3)]}  # fmt: skip
LISTS = [{"anchor": f"why {i}?", "positive": [f"so {i}", f"no {i}", "not"], "labels": [1, 0, 0]} for i in range(3)]
RANKED = [{"query": f"why {i}?", "docs": [f"no {i}", f"so {i}"], "scores": [0.1, 0.9]} for i in range(3)]
CLASSES = datasets.Dataset.from_dict({"text": ["a b", "c d", "e f"], "label": [-1, 0, 1]}, features=datasets.Features(
    {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}))  # fmt: skip
NLI = [{"premise": f"p {i}", "hypothesis": f"h {i}", "label": i % 3} for i in range(6)]

#: name, content, kind, the first row
READ = [
    ("semicolons_decimal_commas.csv", "sentence1;sentence2;score\na, b;c;0.5\nd;e;1\n", "scored_pairs", ("a, b", "c", 0.5)),
    ("quoted_tabs.tsv", 'anchor\tpositive\n"say ""it"""\tso\n"two\nlines"\tyes\n', "pairs", ('say "it"', "so")),
    ("half_a_quote.tsv", 'anchor\tpositive\n"half a quote\tso\nwho\tme"\n', "pairs", ('"half a quote', "so")),
    ("excel_unicode.csv", SHEET.replace(";", "\t").encode("utf-16"), "pairs", ("why, then?", "so, because")),
    ("japanese.txt", "今日は天気がいいです。\n日本語のテキスト。\n".encode("shift_jis"), "texts", ("今日は天気がいいです。",)),
    ("powershell.txt", "one line\r\nanother\r\n".encode("utf-16"), "texts", ("one line",)),
    ("no_mark.txt", "one line\nanother line\n".encode("utf-16-le"), "texts", ("one line",)),
    ("one_column_with_commas.csv", "text\nWell, so be it.\nNo, thanks, sir.\n", "texts", ("Well, so be it.",)),
    ("one_column_quoted.csv", 'text\n"Well, so be it."\nNo.\n', "texts", ("Well, so be it.",)),
    ("blank_lines.csv", "anchor,positive\nwhy?,so\n\n\nwho?,me\n", "pairs", ("why?", "so")),
    ("capitals.csv", "Anchor,Positive\nwhy?,so\n", "pairs", ("why?", "so")),
    ("gz.csv.gz", SHEET, "pairs", ("why, then?", "so, because")),
    ("lines.jsonl.zst", PAIRS, "pairs", tuple(PAIRS[0].values())),
    ("lines.jsonl.xz", PAIRS, "pairs", tuple(PAIRS[0].values())),
    ("lines.jsonl.bz2", PAIRS, "pairs", tuple(PAIRS[0].values())),
    ("lines.ndjson", lines(PAIRS), "pairs", tuple(PAIRS[0].values())),
    ("pretty.json", json.dumps(PAIRS, indent=2), "pairs", tuple(PAIRS[0].values())),
    ("pretty_objects.json", "\n".join(json.dumps(row, indent=2) for row in PAIRS), "pairs", tuple(PAIRS[0].values())),
    ("under_data.json", json.dumps({"version": "1.0", "data": PAIRS}), "pairs", tuple(PAIRS[0].values())),
    ("pandas_list.json", json.dumps({n: [r[n] for r in PAIRS] for n in PAIR}), "pairs", tuple(PAIRS[0].values())),
    ("folder", {"part-0.jsonl": PAIRS[:2], "part-1.jsonl": PAIRS[2:]}, "pairs", tuple(PAIRS[0].values())),
    ("folder_of_parquet", {"data": {"train-0.parquet": PAIRS[:2], "train-1.parquet": PAIRS[2:]}}, "pairs", tuple(PAIRS[0].values())),
    ("folder_of_splits", {"test.csv": PAIRS[2:], "train.csv": PAIRS[:2]}, "pairs", tuple(PAIRS[0].values())),
    ("validation", {"part-0.csv": PAIRS[:2], "part-1.csv": PAIRS[2:]}, "pairs", tuple(PAIRS[0].values())),
    ("like_splits", {"backend.csv": PAIRS[:2], "dev-ops.csv": PAIRS[2:]}, "pairs", tuple(PAIRS[0].values())),
    ("spark", {"_SUCCESS": "", "part-0.txt": "", "part-1.txt": "one text\n"}, "texts", ("one text",)),
    *((f"partitioned{end}", {f"label={own}": {f"a{end}": [{"text": f"it is {own}"}]} for own in ("so%20so", "very")}, "labelled_texts", ("it is so%20so", 0)) for end in (".csv", ".jsonl", ".parquet")),
    ("blank_first.txt", "\n__label__a one text\n__label__b two texts\n", "labelled_texts", ("one text", 0)),
    ("label_inside.txt", "one __label__a text\ntwo texts __label__b\n", "labelled_texts", ("one text", 0)),
    ("two_types", {"a.parquet": pa.table({"text": pa.array(["a b"], pa.large_string()), "label": [1]}), "b.parquet": pa.table({"text": pa.array(["c d"], pa.string_view()), "label": ["0"]})}, "labelled_texts", ("a b", 1)),
    ("packed.parquet.gz", PAIRS, "pairs", tuple(PAIRS[0].values())),
    ("late_columns.jsonl", [PAIRS[i % 4] for i in range(1200)] + [{**PAIR, "negative": "no"}], "triplets", ("why is it so?", "because it is", "no")),
    ("late_text.csv", with_column([*["7"] * 1100, "x1"], "id"), "pairs", tuple(PAIRS[0].values())),
    ("struct.parquet", structs(lambda i: {"text": f"so {i}", "id": i}), "pairs", ("why 0?", "so 0")),
    ("structs.parquet", structs(lambda i: [{"docid": "1", "text": f"so {i}"}]), "pairs", ("why 0?", "so 0")),
    ("struct_of_one_text.parquet", structs(lambda i: {"passage": f"so {i}", "url": "https://a"}), "pairs", ("why 0?", "so 0")),
    ("map.parquet", MAP, "pairs", ("why?", "so")),
    ("nulls.jsonl", [*PAIRS, {"anchor": None, "positive": "x"}], "pairs", tuple(PAIRS[0].values())),
    ("dates.parquet", with_column([datetime.date(2024, 1, 1)] * 4, "when"), "pairs", tuple(PAIRS[0].values())),
    ("label_studio_pairs.json", PAIRS_OF_STUDIO, "labelled_pairs", ("one 0", "two 0", 0)),
    ("label_studio_min.json", [{"text": f"text {i}", "id": i, "sentiment": "ab"[i % 2], "annotator": 1, "annotation_id": 3,
      "created_at": "2024-01-01", "lead_time": 4.5} for i in range(4)], "labelled_texts", ("text 0", 0)),
    ("arrays.csv", "query,pos,neg\nwhy?,['so it is' 'thus'],['no' 'not']\nwho?,['me'],['you']\n", "triplets", ("why?", "so it is", "no", "not")),
    ("argilla.json", ARGILLA, "labelled_texts", ("text 0", 0)),
    ("argilla_1.json", ARGILLA_1, "labelled_texts", ("text 0", 0)),
    ("argilla_flat.jsonl", ARGILLA_FLAT, "labelled_texts", ("text 0", 0)),
    ("tevatron.jsonl.gz", TEVATRON, "triplets", ("why 0?", "T so 0", "no 0")),
    ("flag_embedding_scores.jsonl", FLAG_SCORES, "scored_candidates", ("why 0?", "so 0", "no 0", "not 0", [0.9, 0.1, 0.2])),
    ("medi.json", MEDI, "triplets", ("Represent the question: why 0?", "Represent the answer: so 0", "Represent the answer: no 0")),
    ("question_and_answers.jsonl", [{"question": f"why {i}?", "answers": [f"so {i}", f"thus {i}"]} for i in range(3)], "pairs", ("why 0?", "so 0")),
    ("squad.jsonl", [{k: v for k, v in row.items() if k not in ("title", "context")} for row in SQUAD], "pairs", ("why 0?", "so 0")),
    ("squad_title.jsonl", [{k: v for k, v in row.items() if k != "context"} for row in SQUAD], "pairs", ("why 0?", "so 0")),
    ("beir", BEIR, "pairs", ("why 0?", "T so 0")),
    ("id_first.jsonl", [{"id": f"q{i}", "positive": f"so {i}", "anchor": f"why {i}?"} for i in range(3)], "pairs", ("why 0?", "so 0")),
    ("n_tuples.jsonl", [{**row, "negative_1": "no", "negative_2": "not"} for row in PAIRS], "triplets", (*PAIRS[0].values(), "no", "not")),
    ("votes.csv", with_column(["17", "230", "4", "0"], "votes"), "pairs", tuple(PAIRS[0].values())),
    ("nli.jsonl", NLI, "labelled_pairs", ("p 0", "h 0", 0)),
    ("nli_unlabelled.jsonl", [{**NLI[0], "label": -1}, *NLI], "labelled_pairs", ("p 0", "h 0", 0)),
    ("nli_null.jsonl", [{**NLI[0], "label": None}, *NLI], "labelled_pairs", ("p 0", "h 0", 0)),
    ("times_of_bigquery.csv", "text,label,created\n" + "".join(f"text {n},{n % 2},2024-01-0{n + 1} 00:00:00 UTC\n" for n in range(4)), "labelled_texts", ("text 0", 0)),
    ("signs.csv", "text,sentiment\nbad thing,-1\nsome thing,0\ngood thing,1\n", "labelled_texts", ("bad thing", 0)),
    ("plus_and_minus.csv", "text,label\nbad thing,-\ngood thing,+\n", "labelled_texts", ("bad thing", 1)),
    ("dpr.json", DPR, "triplets", ("why 0?", "T so 0", "no 0")),
    ("labeled_list.csv", [{**row, "positive": json.dumps(row["positive"]), "labels": "[1, 0, 0]"} for row in LISTS], "triplets", ("why 0?", "so 0", "no 0", "not")),
    ("scored_list.jsonl", [{**{k: v for k, v in row.items() if k != "labels"}, "scores": [0.9, 0.1, 0.2]} for row in LISTS], "scored_candidates", ("why 0?", "so 0", "no 0", "not", [0.9, 0.1, 0.2])),
    ("ranked_list.parquet", RANKED, "scored_candidates", ("why 0?", "so 0", "no 0", [0.9, 0.1])),
    ("decimals.parquet", with_column([Decimal("0.25"), Decimal("0.5"), Decimal("1.00"), Decimal("0.75")], "score"), "scored_pairs", (*PAIRS[0].values(), 0.25)),
    ("half_scores.parquet", pa.table({**{n: [r[n] for r in PAIRS] for n in PAIR}, "score": pa.array(np.array([0.25, 0.5, 1, 0], np.float16))}), "scored_pairs", (*PAIRS[0].values(), 0.25)),
    ("metadata.jsonl", [{"content": f"text {i}", "meta": {"author": "me", "page": i}} for i in range(3)], "texts", ("text 0",)),
    ("objects_aside.jsonl", [{"content": f"text {i}", "extra": {"author": "me", "page": i}} for i in range(3)], "texts", ("text 0",)),
    ("large_strings.parquet", pa.table({"anchor": pa.array(["why?", "who?"], pa.large_string()), "positive": pa.array(["so", "me"]).dictionary_encode()}), "pairs", ("why?", "so")),
    ("prodigy.jsonl", [{"text": f"text {i}", "_input_hash": i, "_task_hash": i, "options": [{"id": "A", "text": "Aa"}], "accept": ["AB"[i % 2]], "answer": "accept"} for i in range(4)], "labelled_texts", ("text 0", 0)),
    ("lists.json", '[["why 0?", "so 0"],\n["why 1?", "so 1"]]', "pairs", ("why 0?", "so 0")),
    ("texts.json", '["one text", "two texts"]', "texts", ("one text",)),
    ("texts.jsonl", '"one text"\n"two texts"\n', "texts", ("one text",)),
    ("lists_of_pandas.csv", [{"query": f"q {i}", "positives": str(["it's so", f"b {i}"])} for i in range(3)], "pairs", ("q 0", "it's so")),
    ("index_of_pandas.parquet", pa.table({**{n: [r[n] for r in PAIRS] for n in PAIR}, "__index_level_0__": ["a", "b", "c", "d"]}), "pairs", tuple(PAIRS[0].values())),
    ("cp1252.jsonl", '{"text": "café, très près"}\n{"text": "à côté"}\n'.encode("cp1252"), "texts", ("café, très près",)),
    ("flag_embedding_nulls.jsonl", [{**row, "pos_scores": None, "neg_scores": None} for row in FLAG], "triplets", ("why 0?", "so 0", "no 0", "not 0")),
    ("margins.jsonl", [{"anchor": "a", "positive": "b", "negative_1": "c", "negative_2": "d", "label": own} for own in ([1.5, 4.0], [0.5, -1.0])], "scored_candidates", ("a", "b", "c", "d", [0.0, -1.5, -4.0])),
    *((name, "main\tMSRvid\t2012\t4\t3.75\ta plane .\tan air, plane .\nmain\tMSRvid\t2012\t1\t5.000\tb\tc\textra\n", "scored_pairs", ("a plane .", "an air, plane .", 0.75))
      for name in ("sts-train.csv", "sts-train.tsv", "sts.txt")),
    ("snli_1.0_train.txt", "gold_label\tsentence1_parse\tsentence1\tsentence2\tpairID\n-\t(A)\tA cat.\tA dog.\t2\nneutral\t(A)\tA cat sat.\tIt slept.\t1\n", "labelled_pairs", ("A cat sat.", "It slept.", 1)),
    ("multinli_1.0_train.jsonl", [{"sentence2": "b", "sentence1": "a", "gold_label": "-"}, {"gold_label": "entailment", "sentence1": "You know", "sentence2": "Known", "genre": "x"}], "labelled_pairs", ("You know", "Known", 0)),
    ("quora_train.txt", 'is_duplicate\tquestion1\tquestion2\r\n1\tHow, "so"?\tHow?\r\n0\tWhy?\tWho?\r\n', "labelled_pairs", ('How, "so"?', "How?", 1)),
    ("msr_paraphrase_train.txt", '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said "no\tShe said\n', "labelled_pairs", ('He said "no', "She said", 1)),
    ("first_second.csv", 'first,second,score\n"Well, a",b,0.25\n', "scored_pairs", ("Well, a", "b", 0.25)),
    ("nan_in_a_list.csv", [{"query": f"q {i}", "positive": f"a {i}", "neg": "['no', nan]" if i == 1 else "['no', 'not']"} for i in range(3)], "triplets", ("q 0", "a 0", "no", "not")),
    ("braces.csv", "anchor,positive\nwhy a,{name}\nwhy b,so\n", "pairs", ("why a", "{name}")),
    ("tags.csv", "anchor,positive\n[USER] hi [/USER],{name} in {place}\n[USER] so [/USER],{name} of {place}\n", "pairs", ("[USER] hi [/USER]", "{name} in {place}")),
    ("arrays_of_postgresql.csv", 'query,pos,neg\nq a,"{""so, a"",thus}",{no}\nq b,{ja},"{nein,""n\\""o""}"\n', "triplets", ("q a", "so, a", "no", None)),
    ("numbers_of_numpy.csv", "anchor,positive,negative_1,scores\n" + 'q,p,n,"[np.float64(0.9), np.float64(0.5)]"\n' * 2, "scored_candidates", ("q", "p", "n", [0.9, 0.5])),
    ("years.csv", "anchor,positive\nwhen?,(1984)\nwhy?,so\n", "pairs", ("when?", "(1984)")),
    ("label_list.jsonl", [{"anchor": "why?", "positive": "so", "negative": "no", "label": [0.9, 0.1]}] * 3, "scored_candidates", ("why?", "so", "no", [0.9, 0.1])),
]  # fmt: skip

#: name, content, what the error says
REFUSED = [
    ("sheet.xlsx", b"PK\x03\x04", "no reader for .xlsx"),
    ("unknown.doc", "text", "no reader for .doc"),
    ("missing.csv", None, "no such file"),
    ("part-*.jsonl", None, "no file matches"),
    ("number_among_texts", {"a.parquet": pa.table({"text": ["a b"]}), "b.parquet": pa.table({"text": [1]})}, "b.parquet, row 1: 'text' is 1, not a text"),
    ("mixed_folder", {"a.csv": PAIRS, "b.jsonl": PAIRS}, "several formats"),
    ("split_and_other", {"submission.csv": PAIRS, "test.csv": PAIRS, "train.csv": PAIRS}, "has files named after splits (test, train), and submission.csv, which is of none; name files, such as "),
    ("sports", {"nutrition.csv": PAIRS, "training.csv": PAIRS}, "has files named after splits (train), and nutrition.csv, which is of none; name files, such as "),
    ("one_split", {"extra.csv": PAIRS, "test.csv": PAIRS}, "(test), and extra.csv, which is of none"),
    ("other_json", {"dataset_infos.json": "{}", "train.json": json.dumps(PAIRS)}, "(train), and dataset_infos.json, which is"),
    ("names_first.jsonl", '["anchor", "positive"]\n["why?", "so"]\n', "line 1: anchor, positive may be the names of the columns; run sed 1d"),
    ("no_such_split", {"test.csv": PAIRS}, "unknown split 'train'"),
    ("cosines.csv", with_column(["-0.5", "0.5", "1", "0"], "x"), "x=score --score_range -0.5 1"),
    ("two_objects.parquet", structs(lambda i: {"a": f"so {i}", "b": f"thus {i}"}), "'positive' holds lists or objects"),
    ("ragged.csv", "anchor,positive\nwhy?,so\nwell, it, is,so\n", "row 3: 4 cells where the header has 2"),
    ("open_quote.csv", 'anchor,positive\nwhy?,so\n"never closed,so\n', "row 3"),
    ("squad.jsonl", SQUAD, "--columns question=anchor context=positive"),
    ("squad.parquet", SQUAD, "--columns question=anchor context=positive"),
    ("squad_nested.json", json.dumps(NESTED), "'paragraphs'"),
    ("tevatron_2.jsonl", TEVATRON_2, "'query_text' is the only text; 'positive_document_ids'"),
    ("ids_of_passages.parquet", [{"query": f"why {i}?", "pos_ids": [i], "neg_ids": [7, 8]} for i in range(3)], "'query' is the only text; 'pos_ids'"),
    ("question_and_choices.jsonl", [{"question": f"why {i}?", "choices": ["so", "no"]} for i in range(3)], "no role is known for column 'choices'"),
    ("stars.csv", with_column(["5 stars", "1 star", "3 stars", "2 stars"], "stars"), "no role is known for column 'stars'"),
    ("object_of_text.parquet", [{"id": i, "doc": {"body": f"text {i}", "url": "https://a"}} for i in range(3)], "there is no training with these columns: none; give --columns doc=text"),
    *((f"flag_embedding_{number}.jsonl", [FLAG_SCORES[0], {**FLAG_SCORES[1], **own}], words) for number, (own, words) in enumerate([
        ({"neg_scores": [1, 2, 3]}, "line 2: 4 scores for 1 positive and 2 negatives"),
        ({"pos_scores": [1, 2], "neg_scores": [1]}, "line 2: 3 scores"),
        ({"pos_scores": ["high"]}, "line 2: column 'pos_scores' holds scores, and 'high' is not a number"),
        ({"neg_scores": [None, 1]}, "line 2: column 'neg_scores' holds scores, and 'None' is not a number"),
        ({"neg": [5, "not"]}, "line 2: 'neg' is 5, not a text"),
    ])),
    *((f"lengths_{name}.jsonl", [{"query": "a", "docs": ["b", "c"], name: [1, 0]}, {"query": "d", "docs": ["e", "f"], name: own}], f"line 2: 2 texts in 'docs' and {len(own)} values in '{name}'") for name, own in (("labels", [0]), ("scores", [0.5, 1, 2]))),
    *((f"scores_beside_{number}.jsonl", [{"query": "a", "pos": ["b"], **own}] * 3, words) for number, (own, words) in enumerate([
        ({"pos_scores": [1.0]}, "'pos' (positive), 'pos_scores' (positive_score); give"), ({"neg": ["c"], "neg_scores": [1.0]}, "'neg_scores' (negative_score); give"),
        ({"neg": ["c"], "neg_scores": [1.0], "scores": [2, 1]}, "'neg_scores' (negative_score), 'scores' (scores); give"),
        ({"neg": ["c"], "score": 2}, "'neg' (negative), 'score' (score); give"),
    ])),
    ("no_class_of_nli.tsv", "premise\thypothesis\tlabel\na\tb\tneutral\na\tb\tmaybe\nc\td\tentailment\n", "row 3: 'maybe' in column 'label' is none of entailment"),
    ("short_row.tsv", "premise\thypothesis\tlabel\na\tb\n", "row 2: 2 cells where the header has 3"),
    ("no_label.tsv", "premise\thypothesis\tlabel\na\tb\t-\n", "no row has a label"),
    ("beyond.tsv", "sentence1\tsentence2\tscore\na\tb\t4.2\n", "row 2: '4.2' in column 'score'"),
    ("minus_seven.tsv", "sentence1\tsentence2\tlabel\na\tb\t-7\n", "row 2: '-7' in column 'label' is not a class"),
    ("infinite_class.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\tinf\n", "row 3: 'inf' in column 'label' is not a class"),
    ("text_among_lists.csv", [{"query": f"q {i}", "positive": f"a {i}", "neg": "one text" if i == 1 else "['no', 'not']"} for i in range(3)], """row 3: 'one text' in column 'neg', and "['no', 'not']" above: one is a list"""),
    ("mixed_files", {"a.csv": "query,positive,neg\nq,a,['no']\n", "b.csv": "query,positive,neg\nq,a,\"['no', 'not']\"\nq,a,one text\n"}, "b.csv, row 3: 'one text' in column 'neg'"),
    ("list_among_texts.csv", "anchor,positive\nwhy?,so\nwhat?,\"['a', 'b']\"\n", "row 3: \"['a', 'b']\" in column 'positive', and 'so' above: one is a list"),
    ("lists_of_duckdb.csv", "query,pos,neg\nq 0,[so 0],\"[no 0, 'not, 0']\"\n", "column 'pos' holds lists or objects that are not read there, such as '[so 0]'; write JSON or Parquet"),
    ("labels_of_duckdb.csv", 'text,labels\nBasil.,"[garden, kitchen]"\nSoil.,[garden]\nNone.,[]\n', "column 'labels' holds lists or objects that are not read"),
    *((f"object_in_a_cell_{number}.csv", f'question,answers\nq a,"{cell}"\n', "column 'answers' holds lists or objects that are not read") for number, cell in enumerate(("{'text': ['so a'], 'answer_start': [3]}", "{'text': array(['so a'], dtype=object)}", '{""text"": ""so a"", ""id"": 1}'))),
    ("lists_in_an_anchor.csv", "anchor,positive\n['why'],so\n", "column 'anchor' holds lists or objects that are not read there, such as \"['why']\"; give the column a role that takes lists, as in anchor=positive"),
    ("dates.csv", "text,label,day,level\n" + "".join(f"a text {n},{n % 2},2024-01-0{n + 1},{n}\n" for n in range(4)), "give --columns text label, or --columns text; the"),
    ("comments.csv", "text,label,Comments\n" + "".join(f"a text {n},{n % 2},looked at {n}\n" for n in range(4)), "give --columns text label, or --columns text=anchor Comments=positive label, or"),
    ("index_of_pandas.csv", ",remark\n0,good one here\n1,bad one here\n2,mid one here\n", "give --header true --columns remark=text; if it is a row like the others, give --header false --columns 1=text; if"),
    ("named_rows.csv", "key,text\nfirst row,good one here\nsecond row,bad one here\n", "give --columns text=anchor key=positive, or --columns text; the"),
    ("ids.tsv", "1\t22\t33\n4\t55\t66\n", "give --header true; if it is a row like the others, give --header false; if neither"),
    ("pair_lists.jsonl", [{"text": ["a b", "c d"], "label": n} for n in (0, 1)], "'text' holds lists or objects, not texts; give each text a column"),
    ("columns_of_lists.jsonl", [{"sent1": ["a b", "c d"], "sent2": ["e f", "g h"], "labels": [0, 1]}], "no role is known for column 'sent2'; give each text a column"),
    ("half_classes.csv", "text,label\na b,0.5\ne f,0.7\n", "is not a class; give 0, 1, ..., or leave the cell blank"),
    ("one_score.csv", "sentence1,sentence2,score\na b,c d,4.2\n", "such as --score_range 0 4.2"),
    ("multi_label.jsonl", [{"text": f"t {i}", "labels": ["a", "b"]} for i in range(3)], "lists of labels"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "kind", "first"), READ, ids=[case[0] for case in READ])
def test_read(name, content, kind, first, tmp_path):
    rows, roles = read_examples(str(put(tmp_path, name, content)))
    assert roles.kind == kind, str(roles)
    found = tuple(rows[0].values())
    assert found[: len(first)] == first
    assert len(found) == len(first)
    for unused in roles.left_out:
        assert re.search(rf"not used +{re.escape(unused)} ", str(roles))


@pytest.mark.parametrize(("name", "content", "words"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused(name, content, words, tmp_path):
    path = tmp_path / name if content is None else put(tmp_path, name, content)
    with refusal("", words):
        read_examples(str(path))


def test_what_is_recognized_is_logged(tmp_path, caplog):
    for name, content, words in (
        ("a.jsonl", LISTS, "read as a file of lists of labeled texts"),
        ("b.jsonl", MEDI, "read as a file of MEDI"),
        (
            "d.csv",
            "text,label\na b,-1\nc d,0\ne f,1\n",
            "-1 in column 'label' is read as a class, because the values of the column are -1, 0, 1",
        ),
        ("a.txt", "Why so?\tSo.\nWho is it?\tI.\n", "the lines have tabs inside"),
        ("files", {"train.txt": "why\nhow\n", "validation.txt": "why\n"}, "only split train is read, not validation"),
        (
            "hub",
            {"dataset_infos.json": "{}", "data": {"test-0.csv": PAIRS, "train-0.csv": PAIRS}},
            "left out, because their names are of no split: dataset_infos.json",
        ),
        ("e.csv", "text,label\na b,-1\nc d,0\ne f,1\ng h,2\n", "left out 1 rows without a label (-1)"),
    ):
        caplog.clear()
        read_examples(str(put(tmp_path, name, content)))
        assert words in caplog.text


def test_minus_one_of_class_labels_is_no_class():
    rows, _ = read_examples(CLASSES)
    assert rows["label"][:] == [0, 1]


@pytest.mark.parametrize("rows", [5, {"a b", "c d"}])
def test_tokenize_names_what_it_takes(rows):
    with pytest.raises(InputError, match="texts"):
        tokenize(rows, word_tokenizer(["a"]), 8)


def stream(rows):
    return datasets.IterableDataset.from_generator(lambda: iter(rows))


def test_streams_show_a_row_and_refuse_what_would_be_lost(caplog):
    caplog.set_level("INFO")
    tokenizer = word_tokenizer(["why"])
    assert len(list(tokenize(stream(PAIRS), tokenizer, 8))) == 4
    assert "'why is it red?'" in caplog.text
    with pytest.raises(InputError, match="'score'"):
        tokenize(stream(with_column([4.5], "score")), tokenizer, 8)
    late = [*PAIRS * 300, {**PAIR, "negative": "no"}]
    with pytest.raises(InputError, match="'negative'"):
        list(tokenize(stream(late), tokenizer, 8))


def test_objects_are_not_the_text_of_a_corpus(tmp_path):
    rows = [{"id": i, "doc": {"body": f"text {i}", "url": "https://a"}} for i in range(3)]
    with pytest.raises(InputError, match="columns"):
        stream_texts(str(put(tmp_path, "a.parquet", rows)))
    put(tmp_path, "b.jsonl", [{"content": f"text {i}", "doc": {"body": "x"}} for i in range(2)])
    assert list(stream_texts(str(tmp_path / "b.jsonl"))()) == ["text 0", "text 1"]


def test_pairs_of_relevance_0_are_not_relevant(tmp_path, caplog):
    path = put(tmp_path, "a.csv", with_column(["1", "0", "1", "0"], "relevance"))
    columns = ["anchor", "positive", "relevance=score"]
    assert read_relevant_pairs(path, columns).pairs == [tuple(PAIRS[0].values()), tuple(PAIRS[2].values())]
    assert "2 pairs are relevant" in caplog.text
