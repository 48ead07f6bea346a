"""Name the release that the tests fail with: run those that failed again, with one release of constraints.txt at once.

Call it with the Python of an environment that has the newest releases, after a run of pytest: newest.py TESTS ...
"""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", Path("constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
installed = {name: metadata.version(name) for one in metadata.distributions() if (name := one.name) in pinned}
newer = {name: version for name, version in installed.items() if version.partition("+")[0] != pinned[name]}
print("newer than in constraints.txt:", ", ".join(f"{name} {version}" for name, version in sorted(newer.items())))
install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
again = [sys.executable, "-m", "pytest", "-n", "0", "-x", "--last-failed", *sys.argv[1:]]
if not subprocess.run(again).returncode:
    sys.exit("The tests failed once with the newest releases, and pass when they are run again.")
for name, version in sorted(newer.items()):
    subprocess.run([*install, f"{name}=={pinned[name]}"], check=True)
    if not subprocess.run(again).returncode:
        sys.exit(f"The tests fail with {name} {version}, and pass with {name} {pinned[name]}.")
    subprocess.run([*install, f"{name}=={version}"], check=True)
sys.exit("The tests fail with the newest releases; no single one of constraints.txt makes them pass.")
