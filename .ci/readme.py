"""The blocks of README.md, top to bottom and as written, its installation first, as one script for bash on stdout."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"

for kind, body in re.findall(r"^```(sh|python)\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S):
    print(body if kind == "sh" else f"python - <<'END'\n{body}END\n")
