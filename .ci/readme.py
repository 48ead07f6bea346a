"""The blocks of README.md, top to bottom and as written, its installation first, as one script for bash on stdout.

Blocks that need what is not available (`<!-- not run: ... -->`) are left out; the installation, marked so too, is not.
"""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"

BLOCK = r"(?:^<!-- not run: ([^\n]+) -->\n)?^```(sh|python)\n(.*?)^```$"

for why, kind, body in re.findall(BLOCK, README.read_text(encoding="utf-8"), re.M | re.S):
    if why and "installation" not in why:
        continue
    print(body if kind == "sh" else f"python - <<'END'\n{body}END\n")
