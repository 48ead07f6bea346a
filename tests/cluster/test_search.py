"""PostgreSQL on a host of its own, writers and searchers on others, the API on two behind a proxy; what goes away."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
from hosts import Cluster, until
from store_places import store_place

CLI = [sys.executable, "-m", "contrastive_st.cli"]
SHARDS, ROWS = 6, 16_384
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with Cluster("one", "two", "far", "data", "proxy", slow=["far"]) as hosts:
        yield hosts


class Postgres:
    """The database on the host `data`, started and ended as an administrator would."""

    def __init__(self, cluster, folder):
        from contrastive_st.search.postgres.server import EmbeddedServer

        with EmbeddedServer(folder) as server:  # makes the data folder, with the settings of the package
            self.programs = server._bin
        until(lambda: not (folder / "pgdata/postmaster.pid").exists(), "the embedded server ends")
        self.cluster, self.pgdata = cluster, folder / "pgdata"
        with open(self.pgdata / "pg_hba.conf", "a") as rules:
            rules.write("host all all 10.77.0.0/24 trust\n")
        self.dsn = f"postgresql://postgres@{cluster.addresses['data']}/postgres"
        self.process = None

    def start(self):
        owner = self.pgdata.stat()
        own = ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"]
        address = f"listen_addresses={self.cluster.addresses['data']}"
        server = [self.programs / "postgres", "-D", self.pgdata, "-c", address, "-k", self.pgdata]
        self.process = self.cluster.start("data", *own, *server)
        ready = [self.programs / "pg_isready", "-h", self.cluster.addresses["data"]]
        until(lambda: self.cluster.run("data", *ready, check=False).returncode == 0, "the database starts")

    def stop(self, how=signal.SIGINT):
        """A fast shutdown: clients are disconnected."""
        self.process.send_signal(how)
        self.process.wait(60)


@pytest.fixture(scope="module")
def database(cluster):
    with store_place() as folder:
        found = Postgres(cluster, folder)
        found.start()
        yield found
        found.stop()


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """A folder of shards, as each host sees it on storage that all reach."""
    folder = tmp_path_factory.mktemp("shards")
    rows = (json.dumps({"text": f"document {i} about the tide", "n": i}) for i in range(SHARDS * ROWS))
    (folder / "corpus.jsonl").write_text("\n".join([*rows, ""]))
    command = [*CLI, "index", folder / "corpus.jsonl", "--output", folder / "shards", "--model", "static-minilm"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return folder / "shards"


def load(shards, database, collection):
    return [*CLI, "index", shards, "--store", database.dsn, "--collection", collection, "--index", "none"]


def count(cluster, database, collection):
    """How many documents a collection has, as a third host sees it."""
    out = cluster.run("proxy", *CLI, "collections", collection, "--store", database.dsn, check=False).stdout
    lines = (line.split() for line in out.splitlines())
    return next((int(line[1].replace(",", "")) for line in lines if line[0] == "documents"), 0)


def test_two_writers_load_the_shards_that_a_third_host_searches(cluster, database, shards):
    writers = [cluster.start(host, *load(shards, database, "both")) for host in ("one", "two")]
    outputs = [writer.communicate(timeout=240) for writer in writers]
    assert not any(writer.returncode for writer in writers), outputs
    search = [*CLI, "search", "document 77 about the tide", "--store", database.dsn, "--collection", "both", "--json"]
    hits = cluster.run("proxy", *search, "--filter", "n>=70000", "-k", "3").stdout.splitlines()
    assert all(json.loads(line)["metadata"]["n"] >= 70000 for line in hits)
    assert len(hits) == 3
    assert count(cluster, database, "both") == SHARDS * ROWS


def test_a_writer_that_goes_away_leaves_its_shards_to_the_other(cluster, database, shards):
    """That on the slow link is killed in its first shard."""
    cluster.start("far", *load(shards, database, "rest"))
    until(lambda: "rest" in cluster.run("one", *CLI, "collections", "--store", database.dsn).stdout, "it began")
    cluster.crash("far")
    cluster.run("one", *load(shards, database, "rest"))
    assert count(cluster, database, "rest") == SHARDS * ROWS


def test_the_api_behind_a_proxy_survives_a_replica_and_the_database(cluster, database, shards, tmp_path):
    """Two replicas answer in turns; one goes away, then the cable of the database, then the database itself."""
    if shutil.which("nginx") is None:
        pytest.skip("no nginx: apt-get install nginx-light")
    cluster.run("one", *load(shards, database, "served"))
    serve = [*CLI, "api", "static-minilm", "--index", "served", "--store", database.dsn, "--port", "8080", "--host"]
    replicas = [cluster.start(host, *serve, cluster.addresses[host]) for host in ("one", "two")]
    for replica in replicas:
        until(lambda replica=replica: "http://" in replica.stdout.readline(), "a replica starts")
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, **cluster.addresses))
    cluster.start("proxy", "nginx", "-e", tmp_path / "log", "-c", tmp_path / "nginx.conf", "-p", tmp_path)
    client = cluster.start("proxy", sys.executable, "-c", CLIENT, f"http://{cluster.addresses['proxy']}:8000")
    told = lambda: json.loads(client.stdout.readline())

    def answers(number):
        return [told() for _ in range(number)]

    assert {one["status"] for one in answers(30)} == {200}
    cluster.crash("one")
    assert {one["status"] for one in answers(60)} == {200}
    cluster.cut("data")
    time.sleep(4)
    cluster.cut("data", False)
    after = answers(60)
    assert {one["status"] for one in after} == {200}
    assert max(one["seconds"] for one in after) > 2  # it waited
    database.stop()
    time.sleep(1)
    database.start()
    late = answers(200)
    broken = [number for number, one in enumerate(late) if one["status"] != 200]
    assert {one["status"] for one in late} <= {200, 503}
    assert not broken or max(broken) < 150, broken
    assert late[-1]["status"] == 200


NGINX = """daemon off;
pid {folder}/pid;
worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/temp;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream api {{ server {one}:8080; server {two}:8080; }}
    server {{
        listen 8000;
        location / {{
            proxy_pass http://api;
            proxy_next_upstream error timeout non_idempotent;  # a request changes nothing, so the other may answer it
            proxy_connect_timeout 2s;
        }}
    }}
}}
"""
CLIENT = """
import json, sys, time, urllib.error, urllib.request
while True:
    started = time.monotonic()
    body = json.dumps({"query": "document 77 about the tide", "k": 3}).encode()
    request = urllib.request.Request(sys.argv[1] + "/search", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, hits = answer.status, len(json.load(answer)["hits"])
    except urllib.error.HTTPError as error:
        status, hits = error.code, 0
    print(json.dumps({"status": status, "hits": hits, "seconds": time.monotonic() - started}), flush=True)
    time.sleep(0.05)
"""
