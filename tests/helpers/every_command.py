"""Runs the commands of search on a store, and the routes of the API; prints what fails. See docs/production.md.

python every_command.py STORE MODEL

MODEL is another model than the one of this package, to which a collection moves.
"""

import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from starlette.testclient import TestClient

from contrastive_st.cli import main
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.opening import open_index
from contrastive_st.serve.api import IndexServed, Served, make_api

COMMANDS = """database --setup
database
index rows.jsonl --index hnsw --collection graph
index rows.jsonl --index binary --collection small
index rows.jsonl --index none --collection plain
index rows.jsonl --partitions 3 --collection parted
search tide --collection graph
search tide --collection small --filter year>=2000
search tide --collection graph --hybrid
search tide --collection parted
similar 7 --collection graph
index more.jsonl --collection graph --sync
delete graph --filter topic=snow --yes
duplicates --collection graph
trends --collection graph --clusters 3
collections
collections graph
collections graph --alias live
collections parted --rename cut
collections cut --swap small
collections live --delete
collections cut --delete
migrate graph --model MODEL"""


def run(store, model):
    """The commands that fail."""
    words = ["tide", "rain", "sun", "tide", "snow"] * 30
    rows = [
        {"id": i, "text": f"the {word} of day {i}", "topic": word, "year": 1990 + i} for i, word in enumerate(words)
    ]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("rows.jsonl", rows), ("more.jsonl", rows[:100])):
            Path(folder, name).write_text("".join(json.dumps(row) + "\n" for row in part))
        for line in COMMANDS.splitlines():
            parts = [str(Path(folder, word)) if word.endswith(".jsonl") else word for word in line.split()]
            if main([*(model if part == "MODEL" else part for part in parts), "--store", store, "--quiet"]):
                failed.append(line)
    with closing(open_index(store, "plain")) as index:
        served = Served(open_encoder())
        app = make_api({"m": served}, {"plain": IndexServed(index, served)}, token="readers", writer="writers")
        with TestClient(app, base_url="http://localhost") as http:
            for path, token, body in (
                ("/search", "readers", {"query": "tide", "hybrid": True}),
                ("/upsert", "writers", {"documents": [{"id": "new", "text": "the tide"}]}),
                ("/delete", "writers", {"ids": ["new"]}),
            ):
                answer = http.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
                failed += [f"{path}: {answer.text}"] if answer.status_code != 200 else []
    return failed


if __name__ == "__main__":
    for line in run(*sys.argv[1:]):
        print("failed:", line)
