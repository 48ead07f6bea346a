#!/usr/bin/env bash
# kreuzberg joins words of a .docx that a tab parts, repeats merged cells, and drops a paragraph that holds a text box.
#
# Versions: kreuzberg 4.10.4, python-docx 1.2.0, Python 3.11
# Expected: as python-docx reads it: "Name\tJohn", the merged cell once, and the paragraph with its text box.
# Seen on 2026-11-30 (what this script printed):
#   tab: 'NameJohn', python-docx: 'Name\tJohn'
#   a cell merged over three columns: ['heading', 'heading', 'heading']
#   a paragraph that holds a text box: 'inside'

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile kreuzberg==4.10.4 python-docx==1.2.0 || { echo "not installed"; exit 2; }
cat > read.py <<'PYTHON'
import re
import sys

import kreuzberg
from docx import Document
from docx.oxml import parse_xml

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
BOX = f"<w:r {W}><w:pict><w:txbxContent><w:p><w:r><w:t>inside</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"


def read(document):
    document.save("a.docx")
    options = kreuzberg.ExtractionConfig(use_cache=False, output_format="plain")
    return kreuzberg.extract_file_sync("a.docx", config=options).content.strip()


form = Document()
line = form.add_paragraph("Name\tJohn").text
tab = read(form)
print(f"tab: {tab!r}, python-docx: {line!r}")

merged = Document()
row = merged.add_table(rows=1, cols=3).rows[0]
row.cells[0].merge(row.cells[2]).text = "heading"
cells = re.findall(r"\w+", read(merged))
print(f"a cell merged over three columns: {cells}")

boxed = Document()
boxed.add_paragraph("The harbour closes at noon.")._p.append(parse_xml(BOX))
text = read(boxed)
print(f"a paragraph that holds a text box: {text!r}")
sys.exit((tab, line, cells, text) != ("NameJohn", "Name\tJohn", ["heading"] * 3, "inside"))
PYTHON
venv/bin/python read.py 2>errors || { cat errors; echo "changed: not as stated above"; exit 1; }
