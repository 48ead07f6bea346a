#!/usr/bin/env bash
# kreuzberg reads the slides of a .pptx in the order of the names of their files, not in that of the presentation.
#
# Versions: kreuzberg 4.10.4, python-pptx 1.0.2, Python 3.11
# Expected: third, first, second: the order in which python-pptx lists the slides after the last one was moved to the front.
# Seen on 2026-11-30 (what this script printed):
#   python-pptx: ['third', 'first', 'second'], kreuzberg: ['first', 'second', 'third']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile kreuzberg==4.10.4 python-pptx==1.0.2 || { echo "not installed"; exit 2; }
cat > read.py <<'PYTHON'
import re
import sys

import kreuzberg
from pptx import Presentation

made = Presentation()
for title in ("first", "second", "third"):
    made.slides.add_slide(made.slide_layouts[5]).shapes.title.text = title
order = made.slides._sldIdLst
order.insert(0, order[-1])
made.save("a.pptx")
slides = [slide.shapes.title.text for slide in Presentation("a.pptx").slides]
options = kreuzberg.ExtractionConfig(use_cache=False, output_format="plain")
text = kreuzberg.extract_file_sync("a.pptx", config=options).content
read = re.findall("first|second|third", text)
print(f"python-pptx: {slides}, kreuzberg: {read}")
sys.exit((slides, read) != (["third", "first", "second"], ["first", "second", "third"]))
PYTHON
venv/bin/python read.py 2>errors || { cat errors; echo "changed: not as stated above"; exit 1; }
