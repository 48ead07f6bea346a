"""A server that speaks as much of the Hub's HTTP as the public clients use: real sockets, nothing patched.

Repositories are kept in memory. `faults` makes chosen requests go wrong: status codes, connections dropped in the
middle of a body, flipped bytes. Large files are served from `localhost` while the endpoint is `127.0.0.1`, as the Hub
serves them from another host.
"""

import base64
import functools
import hashlib
import json
import os
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from warm_python import python_for

LARGE = (".safetensors", ".bin", ".png", ".pt", ".pth", ".model", ".parquet")
DATE = "2026-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Entry:
    """A file of a commit: the hash of its content, its size, and whether it is a large file."""

    oid: str
    size: int
    large: bool


@dataclass
class Repo:
    owner: str
    private: bool = False
    gated: bool = False
    commits: dict = field(default_factory=dict)  # sha -> (title, {path: Entry})
    refs: dict = field(default_factory=dict)  # "refs/heads/main" -> sha
    history: dict = field(default_factory=dict)  # sha -> parent

    def sha(self, revision):
        if revision in self.commits:
            return revision
        names = (revision, f"refs/heads/{revision}", f"refs/tags/{revision}")
        return next((self.refs[name] for name in names if name in self.refs), None)

    def files(self, revision):
        return self.commits[self.sha(revision)][1]

    def titles(self, revision="main"):
        """Titles of the commits of a revision, newest first."""
        sha, titles = self.sha(revision), []
        while sha:
            titles.append(self.commits[sha][0])
            sha = self.history[sha]
        return titles

    def commit(self, ref, title, files):
        parent = self.refs.get(ref)
        content = json.dumps([parent, title, sorted((p, e.oid) for p, e in files.items()), len(self.commits)])
        sha = hashlib.sha1(content.encode()).hexdigest()
        self.commits[sha], self.history[sha], self.refs[ref] = (title, dict(files)), parent, sha
        return sha


@dataclass
class Fault:
    """What goes wrong with the next `times` requests of `method` whose path holds `part`."""

    method: str
    part: str
    kind: str  # "drop", "corrupt", or a status such as "500"
    times: int = 1


class Answer(Exception):
    """An answer, raised from wherever it is known."""

    def __init__(self, status=200, body=b"", headers=None, code=None, message=None):
        super().__init__(status)
        self.status, self.headers = status, dict(headers or {})
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        if code or message:
            self.headers |= {"X-Error-Code": code or "", "X-Error-Message": message or code}
            self.body = json.dumps({"error": message or code}).encode()


class HubServer(ThreadingHTTPServer):
    """Use as a context manager; `endpoint` is what HF_ENDPOINT is set to. By default the port is one that is free."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.tokens, self.repos, self.blobs = {"hf_aliceSecretToken0": "alice", "hf_bobSecretToken00": "bob"}, {}, {}
        self.faults, self.requests, self.lock = [], [], threading.RLock()

    endpoint = property(lambda self: f"http://127.0.0.1:{self.server_port}")
    storage = property(lambda self: f"http://localhost:{self.server_port}")

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that hung up is no news."""

    def content(self, repo, path, revision="main"):
        return self.blobs[self.repos[repo].files(revision)[path].oid]

    def put(self, repo, files, owner="alice", **flags):
        """Make a repository with files, as if someone had pushed them; content by path."""
        made = self.repos.setdefault(repo, Repo(owner, **flags))
        entries = dict(made.files("main")) if made.sha("main") else {}
        for path, content in files.items():
            entries[path] = self.store(content, path.endswith(LARGE))
        return made.commit("refs/heads/main", "put", entries)

    def store(self, content, large):
        oid = hashlib.sha256(content).hexdigest() if large else blob_sha1(content)
        self.blobs[oid] = content
        return Entry(oid, len(content), large)


class HubClients:
    """What processes that talk to a server have in common, so that they start from one that has imported everything.

    That is the port of the server, and where HF_HOME is: a link to the cache of each.
    """

    def __init__(self, home):
        with HubServer() as server:
            self.home, self.port, endpoint = home, server.server_port, server.endpoint
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("HF_", "CONTRASTIVE_ST"))}
        own = {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}
        self.common = kept | own

    @functools.cached_property
    def executable(self):
        """For processes with the variables of `environment` and no other of the Hub's."""
        return python_for(self.common)

    @functools.cached_property
    def offline(self):
        """As `executable`, with HF_HUB_OFFLINE=1."""
        return python_for(self.common | {"HF_HUB_OFFLINE": "1"})

    def environment(self, cache):
        """The variables of the next processes, whose cache is this folder."""
        cache.mkdir(exist_ok=True)
        self.home.unlink(missing_ok=True)
        self.home.symlink_to(cache)
        return dict(self.common)


def blob_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def log_message(self, *args):
        """Quiet."""

    def handle_any(self):
        self.url = urlsplit(self.path)
        self.query, self.close_connection = parse_qs(self.url.query), False
        with self.server.lock:
            self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
            fault = self._fault()
        length = int(self.headers.get("Content-Length") or 0)
        if fault == "drop" and length:
            self.rfile.read(length // 2)
            self.connection.close()
            return
        self.sent = self.rfile.read(length)
        if len(self.sent) < length:  # the client went away in the middle
            self.close_connection = True
            return
        if fault == "corrupt" and self.sent:
            self.sent = self.sent[:-1] + bytes([self.sent[-1] ^ 1])
        try:
            if fault and fault.isdigit():
                raise Answer(int(fault), message="injected fault")
            with self.server.lock:
                self._route()
        except Answer as answer:
            self._send(answer, fault)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def _fault(self):
        for fault in self.server.faults:
            if fault.times and fault.method == self.command and fault.part in self.path:
                fault.times -= 1
                return fault.kind
        return None

    def _send(self, answer, fault):
        body = answer.body
        if fault == "corrupt" and body and not self.sent:
            body = body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :]
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if fault == "drop" else body)
        if fault == "drop":
            self.close_connection = True

    # ------------------------------------------------------------------ who may do what

    def _route(self):
        for method, pattern, function in ROUTES:
            match = re.fullmatch(pattern, unquote(self.url.path))
            if match and self.command in method.split():
                function(self, **match.groupdict())
                raise AssertionError(f"{function.__name__} gave no answer")
        raise Answer(404, message="no such address")

    @property
    def user(self):
        header = self.headers.get("Authorization")
        if header is None:
            return None
        user = self.server.tokens.get(header.removeprefix("Bearer "))
        if user is None:
            raise Answer(401, message="Invalid credentials in Authorization header")
        return user

    def _repo(self, name, write=False, content=False):
        repo, user = self.server.repos.get(name), self.user
        if repo is None or (repo.private and user != repo.owner):
            raise Answer(404 if user else 401, code="RepoNotFound", message="Repository not found")
        if content and repo.gated and user != repo.owner:
            raise Answer(403 if user else 401, code="GatedRepo", message="Access to this model is restricted")
        if write and user != repo.owner:
            raise Answer(403 if user else 401, message="You don't have the rights to write here")
        return repo

    def _files(self, repo, revision):
        if repo.sha(revision) is None:
            raise Answer(404, code="RevisionNotFound", message=f"Invalid rev id: {revision}")
        return repo.files(revision)

    @property
    def json(self):
        return json.loads(self.sent or b"{}")

    # ------------------------------------------------------------------ reading

    def whoami(self):
        if self.user is None:
            raise Answer(401, message="Invalid username or password.")
        token = {"accessToken": {"displayName": "test", "role": "write"}}
        raise Answer(200, {"type": "user", "name": self.user, "fullname": self.user, "orgs": [], "auth": token})

    def info(self, name, revision="main"):
        repo = self._repo(name)
        files = self._files(repo, revision)
        about = {"_id": "0", "id": name, "sha": repo.sha(revision), "private": repo.private, "tags": [], "likes": 0}
        about |= {"gated": "manual" if repo.gated else False, "downloads": 0, "disabled": False, "lastModified": DATE}
        raise Answer(200, about | {"siblings": [{"rfilename": path} for path in sorted(files)]})

    def tree(self, name, revision, path=None):
        files = self._files(self._repo(name), revision)
        below = f"{path}/" if path else ""
        inside = {p: e for p, e in sorted(files.items()) if p.startswith(below)}
        if path and not inside:
            raise Answer(404, code="EntryNotFound", message=f"{path} does not exist on {revision}")
        deep = self.query.get("recursive", ["false"])[0].lower() == "true"
        rows = [describe(p, e) for p, e in inside.items() if deep or "/" not in p.removeprefix(below)]
        raise Answer(200, rows)

    def resolve(self, name, rest):
        repo = self._repo(name, content=True)
        revision = next((r for r in pieces(rest) if repo.sha(r)), None)
        if revision is None:
            raise Answer(404, code="RevisionNotFound", message="Invalid rev id")
        path, sha = rest[len(revision) + 1 :], repo.sha(revision)
        entry = repo.files(sha).get(path)
        if entry is None:
            raise Answer(404, headers={"X-Repo-Commit": sha}, code="EntryNotFound", message="Entry not found")
        if entry.large:
            linked = {"X-Linked-Size": str(entry.size), "X-Linked-ETag": f'"{entry.oid}"'}
            raise Answer(
                302, headers={"Location": f"{self.server.storage}/cdn/{entry.oid}", "X-Repo-Commit": sha, **linked}
            )
        self._content(entry.oid, {"X-Repo-Commit": sha, "ETag": f'"{entry.oid}"'})

    def cdn(self, oid):
        if oid not in self.server.blobs:
            raise Answer(404, message="no such object")
        self._content(oid, {"ETag": f'"{oid}"'})

    def _content(self, oid, headers):
        body = self.server.blobs[oid]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted:
            first, last = int(wanted[1]), min(int(wanted[2] or len(body) - 1), len(body) - 1)
            headers |= {"Content-Range": f"bytes {first}-{last}/{len(body)}"}
            raise Answer(206, body[first : last + 1], headers)
        raise Answer(200, body, headers | {"Accept-Ranges": "bytes", "Content-Length": str(len(body))})

    # ------------------------------------------------------------------ writing

    def create(self):
        if self.user is None:
            raise Answer(401, message="Invalid username or password.")
        wanted = self.json
        owner = wanted.get("organization") or self.user
        name = f"{owner}/{wanted['name']}"
        url = {"url": f"{self.server.endpoint}/{name}", "id": name}
        if owner != self.user:
            raise Answer(403, message=f"You don't have the rights to create a model under {owner}")
        if name in self.server.repos:
            raise Answer(409, url | {"error": "You already created this model repo"})
        private = wanted.get("private") or wanted.get("visibility") == "private"
        repo = self.server.repos[name] = Repo(self.user, private=bool(private))
        entry = self.server.store(b"*.safetensors filter=lfs\n", False)
        repo.commit("refs/heads/main", "initial commit", {".gitattributes": entry})
        raise Answer(200, url)

    def preupload(self, name, revision):
        repo = self._repo(name, write=not self.query.get("create_pr"))
        files = self._files(repo, revision)
        rows = []
        for wanted in self.json["files"]:
            path = wanted["path"]
            large = path.endswith(LARGE) and wanted["size"] > 0
            oid = files[path].oid if path in files else None
            mode = "lfs" if large else "regular"
            rows.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        raise Answer(200, {"files": rows})

    def batch(self, name):
        self._repo(name)
        objects = []
        for wanted in self.json["objects"]:
            actions = {
                "upload": {"href": f"{self.server.storage}/upload/{wanted['oid']}"},
                "verify": {"href": f"{self.server.endpoint}/{name}.git/verify"},
            }
            objects.append(wanted if wanted["oid"] in self.server.blobs else wanted | {"actions": actions})
        raise Answer(200, {"transfer": "basic", "objects": objects})

    def upload(self, oid):
        if hashlib.sha256(self.sent).hexdigest() != oid:
            raise Answer(400, message="the content's SHA-256 is not what was announced")
        self.server.blobs[oid] = self.sent
        raise Answer(200)

    def verify(self, name):
        wanted = self.json
        if len(self.server.blobs.get(wanted["oid"], b"")) != wanted["size"]:
            raise Answer(422, message="the object was not uploaded, or not all of it")
        raise Answer(200, {})

    def commit(self, name, revision):
        as_pr = "create_pr" in self.query
        repo = self._repo(name, write=not as_pr)
        if self.user is None:
            raise Answer(401, message="Invalid username or password.")
        files = dict(self._files(repo, revision))
        lines = [json.loads(line) for line in self.sent.splitlines() if line]
        header = next(line["value"] for line in lines if line["key"] == "header")
        if header.get("parentCommit") not in (None, repo.sha(revision)):
            raise Answer(412, message="A commit has happened since. Please refresh and try again.")
        for line in lines:
            self._apply(line["key"], line["value"], files)
        number = sum(ref.startswith("refs/pr/") for ref in repo.refs) + 1
        ref = f"refs/pr/{number}" if as_pr else revision if revision.startswith("refs/") else f"refs/heads/{revision}"
        if as_pr:
            repo.refs[ref] = repo.sha(revision)
        sha = repo.commit(ref, header["summary"], files)
        found = {"success": True, "commitOid": sha, "commitUrl": f"{self.server.endpoint}/{name}/commit/{sha}"}
        if as_pr:
            found["pullRequestUrl"] = f"{self.server.endpoint}/{name}/discussions/{number}"
        raise Answer(200, found)

    def _apply(self, kind, value, files):
        path = value.get("path", "")
        if path.startswith("/") or ".." in path.split("/"):
            raise Answer(400, message=f"invalid path {path}")
        if kind == "file":
            files[path] = self.server.store(base64.b64decode(value["content"]), False)
        elif kind == "lfsFile":
            if len(self.server.blobs.get(value["oid"], b"")) != value["size"]:
                raise Answer(400, message=f"the large file of {path} was not uploaded")
            files[path] = Entry(value["oid"], value["size"], True)
        elif kind == "deletedFile" and files.pop(path, None) is None:
            raise Answer(400, message=f"{path} does not exist")

    def branch(self, name, branch):
        repo = self._repo(name, write=True)
        if f"refs/heads/{branch}" in repo.refs:
            raise Answer(409, {"error": "reference already exists"})
        repo.refs[f"refs/heads/{branch}"] = repo.sha("main")
        raise Answer(200, {})

    def validate_yaml(self):
        head = re.match(r"---\n(.*?)\n---", self.json["content"], re.DOTALL)
        errors = [] if head and "\t" not in head[1] else [{"message": "no metadata"}]
        raise Answer(200 if not errors else 400, {"errors": errors, "warnings": []})


def describe(path, entry):
    row = {"type": "file", "path": path, "size": entry.size, "oid": entry.oid}
    return row | {"lfs": {"oid": entry.oid, "size": entry.size, "pointerSize": 130}} if entry.large else row


def pieces(rest):
    """What of `refs/pr/1/config.json` may be the revision: the first part, or a full reference."""
    parts = rest.split("/")
    return ["/".join(parts[:length]) for length in (3, 2, 1) if len(parts) > length]


_NAME = r"(?P<name>[\w.-]+/[\w.-]+)"
_API = rf"/api/models/{_NAME}"
_REV = r"(?P<revision>refs/(?:pr|heads|tags)/[^/]+|[^/]+)"
ROUTES = [
    ("GET", "/api/whoami-v2", Handler.whoami),
    ("POST", "/api/repos/create", Handler.create),
    ("POST", "/api/validate-yaml", Handler.validate_yaml),
    ("GET", _API, Handler.info),
    ("GET", rf"{_API}/revision/(?P<revision>.+)", Handler.info),
    ("GET", rf"{_API}/tree/{_REV}(?:/(?P<path>.+))?", Handler.tree),
    ("POST", rf"{_API}/branch/(?P<branch>.+)", Handler.branch),
    ("POST", rf"{_API}/preupload/(?P<revision>.+)", Handler.preupload),
    ("POST", rf"{_API}/commit/(?P<revision>.+)", Handler.commit),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", Handler.batch),
    ("POST", rf"/{_NAME}\.git/verify", Handler.verify),
    ("PUT", r"/upload/(?P<oid>\w+)", Handler.upload),
    ("GET HEAD", r"/cdn/(?P<oid>\w+)", Handler.cdn),
    ("GET HEAD", rf"/{_NAME}/resolve/(?P<rest>.+)", Handler.resolve),
]
