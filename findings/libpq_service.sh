#!/usr/bin/env bash
# A connection string with a value for each parameter still takes the time zone, the date style and the service of the
# environment.
#
# Versions: psycopg 3.3.9 with its libpq 18, Python 3.11
# Expected: the string decides, as variables of the environment are defaults of parameters. PGTZ, PGDATESTYLE and
#   PGGEQO have no parameter and are sent all the same; a PGSERVICE without a definition is an error although host,
#   port, user and database are in the string, and service='' looks for a service without a name.
# Seen on 2026-11-28 (what this script printed):
#   sent to the server: {'options': '-c timezone=UTC', 'timezone': 'Asia/Tokyo', 'datestyle': 'German'}
#   PGSERVICE=nowhere: connection is bad: definition of service "nowhere" not found
#   PGSERVICE=nowhere: connection is bad: definition of service "" not found

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile "psycopg[binary]==3.3.9" \
    || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - <<'EOF'
import os, socket, sys, threading
import psycopg

server = socket.create_server(("127.0.0.1", 0))
address = f"host=127.0.0.1 port={server.getsockname()[1]} user=ann dbname=tides sslmode=disable gssencmode=disable"
sent = []


def answer():
    """Reads the first message of one client, which has the settings of its session, and closes."""
    client, _ = server.accept()
    size = int.from_bytes(client.recv(4), "big")
    parts = client.recv(size - 4)[4:].rstrip(b"\0").decode().split("\0")
    sent.append(dict(zip(parts[::2], parts[1::2])))
    client.close()


def connect(text, **environment):
    os.environ.update(environment)
    try:
        psycopg.connect(text)
    except psycopg.OperationalError as error:
        return str(error).strip().splitlines()[0]
    finally:
        for name in environment:
            del os.environ[name]


listener = threading.Thread(target=answer)
listener.start()
connect(f"{address} options='-c timezone=UTC'", PGTZ="Asia/Tokyo", PGDATESTYLE="German", PGOPTIONS="-c geqo=off")
listener.join()
print("sent to the server:", {name: sent[0].get(name) for name in ("options", "timezone", "datestyle")})
errors = [connect(address, PGSERVICE="nowhere"), connect(f"{address} service=''", PGSERVICE="nowhere")]
for error in errors:
    print("PGSERVICE=nowhere:", error)
if (sent[0].get("timezone"), sent[0].get("options")) != ("Asia/Tokyo", "-c timezone=UTC"):
    sys.exit("changed: the time zone of the environment is not sent")
if not all("service" in str(error) for error in errors):
    sys.exit("changed: the service of the environment is left alone")
EOF
