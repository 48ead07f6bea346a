#!/usr/bin/env bash
# With two workers uvicorn takes 40 ms longer for each request of a connection that stays open.
#
# Versions: uvicorn 0.54.0 with h11 and asyncio, Python 3.11, Linux
# Expected: the time of one worker. With workers, --reload or sockets=[...] uvicorn listens on a socket that it made by
#   socket.socket(family), whose protocol is 0. asyncio switches Nagle's algorithm off only for sockets whose protocol
#   is TCP, and an accepted socket has that of the listener. So the body of an answer, written after its headers, waits
#   until the client acknowledges these, which Linux delays by 40 ms once a connection has been used a little.
#   A listener with TCP_NODELAY passes it on.
# Seen on 2026-11-29 (what this script printed):
#   1 worker(s): 0 ms a request
#   2 worker(s): 48 ms a request

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile uvicorn==0.54.0 || { echo "not installed"; exit 2; }
cat > app.py <<'EOF'
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2000")]})
    await send({"type": "http.response.body", "body": b"a" * 2000})
EOF
cat > ask.py <<'EOF'
import http.client
import socket
import statistics
import subprocess
import sys
import time

medians = {}
for workers in (1, 2):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--workers", str(workers),
               "--http", "h11", "--loop", "asyncio", "--lifespan", "off", "--log-level", "error"]
    server = subprocess.Popen(command)
    try:
        for _ in range(100):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.connect()
                break
            except OSError:
                time.sleep(0.2)
        seconds = []
        for _ in range(60):
            started = time.perf_counter()
            connection.request("GET", "/")
            assert len(connection.getresponse().read()) == 2000
            seconds.append(time.perf_counter() - started)
        medians[workers] = 1000 * statistics.median(seconds[30:])
        print(f"{workers} worker(s): {medians[workers]:.0f} ms a request")
    finally:
        server.terminate()
        server.wait()
if medians[2] < medians[1] + 25:
    sys.exit("changed: two workers are as fast as one")
EOF
venv/bin/python ask.py
