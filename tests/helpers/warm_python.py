"""Pythons that start at once: `python()` and `python_with_package()` are executables that fork from warm processes.

The tests start some two hundred processes, each of which would spend most of its time on importing torch, pandas and
scikit-learn. One process per session imports these, and nothing that reads the environment when it is imported (as
huggingface_hub does); it forks for each process that a test starts, which then has its own arguments, environment,
folder, standard streams, signals and exit status, and ends as any interpreter does:

    test --> `python` (some ms, no imports) --> the warm process --> a fork of it, which runs the script

A fork of that process imports transformers and this package too and is the warm process of `python_with_package()`:
for processes whose variables are those of the session, but for what a launcher of several processes sets.

What differs is told nowhere: a process that is killed by SIGKILL lives some milliseconds longer than the executable
that the test killed, and modules are not taken apart at the end. So tests that kill use `sys.executable`. Flags of the
interpreter (but `-u`, of torchrun) lead to a plain Python as well, and so do variables that a library reads when it is
loaded (`OMP_NUM_THREADS`, ...), if they differ from those of the session.
"""

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

#: Imported before the fork. None of them reads an environment variable that tests set, and none starts a thread.
WARM = (
    "torch", "torch.distributed.run", "torch._dynamo", "torch.nn.parallel", "torch.distributed.fsdp", "pandas",
    "pyarrow.dataset", "pyarrow.parquet", "scipy.stats", "scipy.sparse", "sklearn.linear_model", "sklearn.metrics",
    "sklearn.feature_extraction.text", "dill", "multiprocess", "aiohttp", "requests", "yaml", "jinja2", "psutil",
)  # fmt: skip
PACKAGE = (
    "transformers.trainer", "transformers.models.bert.modeling_bert", "transformers.models.auto", "datasets", "peft",
    "accelerate.commands.launch", "sentence_transformers", "contrastive_st.cli", "contrastive_st.scripts",
    "contrastive_st.training", "contrastive_st.models.encoder", "contrastive_st.evaluation", "contrastive_st.hub.cards",
    "contrastive_st.losses", "contrastive_st.data.mixture", "contrastive_st.scripts.run",
    "contrastive_st.models.static_encoder", "contrastive_st.models.word_models", "contrastive_st.models.wrapped",
    "contrastive_st.scripts.encoder", "contrastive_st.data.neighbor_pairs", "torch.utils.tensorboard",
)  # fmt: skip
#: Variables that libraries read when they are loaded, and those of them that are read later. (What
#: accelerate launch sets, KMP_AFFINITY, is for an OpenMP that the wheels of torch do not have.)
LOADED = ("OMP_", "OPENBLAS_", "MKL_", "ONEDNN_", "LD_", "MALLOC_", "GLIBC_", "TORCH", "PYTHONHASHSEED")
LATER = ("TORCHELASTIC_", "TORCH_NCCL_", "HF_TOKEN")
#: Names the folder of the executables that all workers share
SHARED = "CONTRASTIVE_ST_WARM"
LOADED_BY_PACKAGE = ("HF_", "TRANSFORMERS_", "DATASETS_", "SENTENCE_TRANSFORMERS_", "XDG_", "HOME")
#: The variables of the session, as it began
BEGAN = dict(os.environ)

CLIENT = """#!{executable} -IS
import json, os, signal, socket, sys
arguments = sys.argv[1:]
if arguments[:1] == ["-u"]:
    del arguments[0]
    os.environ["PYTHONUNBUFFERED"] = "1"
loaded = {{n: v for n, v in os.environ.items() if n.startswith({loaded!r}) and not n.startswith({later!r})}}
if not arguments or arguments[0] not in ("-c", "-m") and arguments[0].startswith("-") or loaded != {environment!r}:
    os.execv({executable!r}, [{executable!r}, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
job = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(job).to_bytes(8, "little")], [0, 1, 2])
server.sendall(job)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
status = int(server.makefile().readline())
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def put_back() -> None:
    """Give the variables that libraries read when they are loaded the values that they had when the session began."""
    for name in [name for name in {*os.environ, *BEGAN} if name.startswith(LOADED + LOADED_BY_PACKAGE)]:
        if name in BEGAN:
            os.environ[name] = BEGAN[name]
        else:
            os.environ.pop(name, None)


def share() -> None:
    """Start both for the workers of pytest-xdist, beside what they import; called where the tests are given out."""
    folder = Path(os.environ.setdefault(SHARED, tempfile.mkdtemp(prefix="warm")))

    def start():
        executable = sys.executable
        for name, modules, loaded in (("python", WARM, LOADED), ("package", PACKAGE, LOADED + LOADED_BY_PACKAGE)):
            executable = _executable(executable, modules, loaded)
            (folder / "part").symlink_to(executable)
            (folder / "part").rename(folder / name)

    atexit.register(shutil.rmtree, folder)
    threading.Thread(target=start, daemon=True).start()


def _shared(name: str) -> str | None:
    """The executable that the process which gives out the tests has started, once it has."""
    for _ in range(600 if SHARED in os.environ else 0):
        if (path := Path(os.environ[SHARED], name)).exists():
            return os.readlink(path)
        time.sleep(0.1)
    return None


@functools.cache
def python() -> str:
    """The executable; where processes cannot be forked, that of this interpreter."""
    return _shared("python") or _executable(sys.executable, WARM, LOADED)


@functools.cache
def python_with_package(*others: str) -> str:
    """The executable of processes that have imported this package, and other modules; see above."""
    if not others and (shared := _shared("package")):
        return shared
    starts_by, modules = (python_with_package(), others) if others else (python(), PACKAGE)
    return _executable(starts_by, modules, LOADED + LOADED_BY_PACKAGE)


def python_for(environment: dict[str, str]) -> str:
    """As `python_with_package`, for processes with these variables in place of those of the session; start it once."""
    return _executable(python(), PACKAGE, LOADED + LOADED_BY_PACKAGE, environment)


def _executable(
    starts_by: str, modules: tuple[str, ...], loaded: tuple[str, ...], own: dict[str, str] | None = None
) -> str:
    """Start a warm process that has imported `modules`; returns the executable that forks from it."""
    if not hasattr(os, "pidfd_open"):
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="warm"))
    client, path = folder / "python", str(folder / "socket")
    own = own or BEGAN
    environment = {n: v for n, v in own.items() if n.startswith(loaded) and not n.startswith(LATER)}
    client.write_text(
        CLIENT.format(executable=sys.executable, path=path, environment=environment, loaded=loaded, later=LATER)
    )
    client.chmod(0o700)
    place = os.path.dirname(__file__)
    code = f"import sys; sys.path.insert(0, {place!r}); import warm_python as w; w.main({path!r}, {modules!r})"
    server = subprocess.Popen([starts_by, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own)
    assert server.stdout.readline() == b"ready\n"
    atexit.register(shutil.rmtree, folder)
    atexit.register(server.communicate)  # the server ends when its standard input does
    return str(client)


def _receive(connection):
    """The job of a client: its arguments, folder and environment, and its standard streams."""
    import json
    import socket

    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    return *json.loads(connection.makefile("rb").read(int.from_bytes(head, "little"))), streams


def _serve(path):
    """Fork for each job, forward signals, tell the client how the fork ended; returns in a fork, with its job."""
    import selectors
    import signal
    import socket

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ)
    events.register(sys.stdin, selectors.EVENT_READ)
    children = {}  # of a connection and of a pidfd: both, with the process id
    print("ready", flush=True)
    while True:
        for event, _ in events.select():
            if event.fileobj is sys.stdin:
                for _, _, child in children.values():
                    os.kill(child, signal.SIGKILL)
                os._exit(0)
            if event.fileobj is listener:
                connection, _ = listener.accept()
                job = _receive(connection)
                child = os.fork()
                if child == 0:
                    events.close()
                    for opened in (listener, connection):
                        opened.close()
                    return job
                for stream in job[-1]:
                    os.close(stream)
                ended = os.pidfd_open(child)
                for file in (connection, ended):
                    children[file] = connection, ended, child
                    events.register(file, selectors.EVENT_READ)
                continue
            if event.fileobj not in children:
                continue
            connection, ended, child = children[event.fileobj]
            if event.fileobj is connection:
                numbers = connection.recv(16) or None
                for number in numbers or [signal.SIGKILL]:
                    os.kill(child, number)
                if numbers is None:
                    events.unregister(connection)
                continue
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            events.unregister(ended)
            if connection in events.get_map():
                events.unregister(connection)
                connection.sendall(f"{status}\n".encode())
            connection.close()
            os.close(ended)
            del children[connection], children[ended]


def _become(arguments, folder, environment, streams, executable):
    """Take on folder, environment and streams of a job; returns what Python would run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, closefd=False)  # noqa: SIM115 - a fork of this process opens them again
        for number, mode in enumerate("rww")
    )
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.stdout.reconfigure(write_through="PYTHONUNBUFFERED" in environment)
    os.chdir(folder)
    paths = lambda: [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [path for path in sys.path[2:] if path not in paths()]  # without that of this file, and of `-c`
    os.environ.clear()
    os.environ.update(environment)
    if arguments[:2] == ["-m", "accelerate.commands.launch"]:  # its workers are forks too
        sys.executable = os.environ["PYTHON_EXEC"] = executable
    sys.path[:0] = paths()
    return arguments


def _run(arguments):
    """What `python ARGUMENTS` does, in the module `__main__`."""
    first, *rest = arguments
    if first == "-m":
        import runpy

        sys.path.insert(0, os.getcwd())
        sys.argv = rest
        sys.modules.pop(rest[0], None)  # as where nothing has imported it
        runpy._run_module_as_main(rest[0])
        return
    from_text = first == "-c"
    sys.path.insert(0, "" if from_text else os.path.dirname(os.path.abspath(first)))
    sys.argv = [first, *rest[1:]] if from_text else arguments
    code = compile(rest[0] if from_text else Path(first).read_bytes(), "<string>" if from_text else first, "exec")
    main = sys.modules["__main__"].__dict__
    for name in [name for name in main if name not in ("__name__", "__builtins__", "__loader__", "__spec__")]:
        del main[name]
    main |= {} if from_text else {"__file__": first}
    exec(code, main)


def _code_of(job):
    """The exit code of a job, after its last words."""
    try:
        job()
    except SystemExit as exit:
        if exit.code is None or isinstance(exit.code, int):
            return (exit.code or 0) & 255
        print(exit.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code):
    """The end of an interpreter but for taking its modules apart, which would copy the memory that forks share."""
    import threading

    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main(path: str, modules: tuple[str, ...]) -> None:
    """The warm process: import, serve until the session ends; in each fork, run its job."""
    import gc
    import importlib

    for name in modules:
        importlib.import_module(name)
    if "transformers" in sys.modules:  # it compiles a thousand patterns when it opens a first model
        importlib.import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("bert")
    os.fsync = lambda descriptor: None  # as in the process of the tests
    gc.freeze()  # what is not collected is not copied
    job = _serve(path)
    _end(_code_of(lambda: _run(_become(*job, str(Path(path).with_name("python"))))))
