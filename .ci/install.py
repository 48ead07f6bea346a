"""Install into the environment of this Python as pip does, in a tenth of the time: install.py ARGUMENTS OF pip install

uv installs, which unpacks a wheel once for all environments. It reads nothing of pip's configuration, so pip installs
torch, as its configuration may name an index of wheels without CUDA; and everything, if uv fails.
"""

import subprocess
import sys

UV = "uv==0.13.9"
arguments = sys.argv[1:]
# modules are compiled when they are first imported, once: pip would compile all of them, most of which nothing uses
pip = [sys.executable, "-m", "pip", "install", "--no-compile", "--quiet", "--disable-pip-version-check"]
if arguments[0] == "-c":
    subprocess.run([*pip, *arguments[:2], "torch"], check=True)
subprocess.run([*pip, UV])
uv = [sys.executable, "-m", "uv", "--system-certs", "pip", "install", "--quiet", "--python", sys.executable]
if subprocess.run([*uv, *arguments]).returncode:
    subprocess.run([*pip, *arguments], check=True)
