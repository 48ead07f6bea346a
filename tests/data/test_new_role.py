"""A role of numbers is a row of `ROLES`: its column stays beside the texts, for a loss or a collator that reads it."""

import subprocess
import sys

CODE = """
import importlib.util, sys
spec = importlib.util.find_spec("contrastive_st.data.roles")
roles = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = roles
row = '    Role("weight", (NUMBERS,), False, ("weight", "importance")),\\n'
whole = open(spec.origin, encoding="utf-8").read().replace("    Role(TEXT,", row + "    Role(TEXT,", 1)
exec(compile(whole, spec.origin, "exec"), vars(roles))

from contrastive_st.data import read_examples, tokenize, train_wordpiece
rows, found = read_examples([{"importance": 0.5, "anchor": "a b", "positive": "b"},
                             {"importance": 2, "anchor": "a", "positive": "b a"}])
assert (found.kind, found.columns["importance"]) == ("pairs", "weight"), found
tokens = tokenize(rows, train_wordpiece(["a b", "a b"], 20), 8)
assert tokens["weight"][:] == [0.5, 2.0], tokens
assert len(tokens[0]["input_ids"]) == 2
"""


def test_a_row_of_roles_is_all_that_a_role_of_numbers_needs():
    subprocess.run([sys.executable, "-c", CODE], check=True)
