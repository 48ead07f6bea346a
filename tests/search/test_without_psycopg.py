"""Everything but the store works without psycopg: it is imported in `search/postgres/` alone."""

import ast
import json
import subprocess
from pathlib import Path

import pytest
from warm_python import python

import contrastive_st.search

pytestmark = pytest.mark.slow

ROOT = Path(contrastive_st.search.__file__).parents[1]
RUN = """
import sys
for name in ("psycopg", "psycopg_pool", "pgvector"):
    sys.modules[name] = None  # importing it is an ImportError
from contrastive_st.cli import main
folder = sys.argv[1]
main(["index", folder + "/talks.csv", "--output", folder + "/shards"]) and sys.exit("index")
for search in (["search", "the sea", "--hybrid"], ["similar", "7"], ["search", "the sea", "--filter", "year>=2000"]):
    main([*search, "--store", folder + "/shards", "--json", "-k", "1"]) and sys.exit(search[0])
main(["trends", "--store", folder + "/shards", "--clusters", "2"]) and sys.exit("trends")
sys.exit(0 if main(["search", "the sea", "--store", folder]) == 2 else "no store")
"""


def test_files_are_indexed_and_searched_without_psycopg(tmp_path):
    (tmp_path / "talks.csv").write_text(
        "id,text,year\n7,waves of the sea,1999\n8,the sea at night,2004\n9,taxes,2004\n"
    )
    done = subprocess.run([python(), "-c", RUN, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    hits = [json.loads(line)["id"] for line in done.stdout.splitlines() if line.startswith("{")]
    assert hits[1:] == [8, 8]
    assert "there is no store" in done.stderr or "pip install" in done.stderr


def test_sql_is_in_one_folder():
    for path in ROOT.rglob("*.py"):
        if path.parent.name == "postgres":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            roots = {name.partition(".")[0] for name in names}
            assert not roots & {"psycopg", "psycopg_pool", "pgvector"}, f"{path}:{node.lineno}"
