"""Push checkpoint folders to the Hub and pull them: only the files that open, explain and reproduce the model."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi, RepoFile, constants
from huggingface_hub.utils import filter_repo_objects

from contrastive_st.errors import InputError
from contrastive_st.files.cards import CARD, CURVE, EVAL_RESULTS, EVALUATION, STATE, TRAINING_METADATA, was_edited
from contrastive_st.files.download import RESUMING, hub_errors
from contrastive_st.files.folders import (
    ADAPTER,
    CLASSIFIER,
    ENCODER,
    GRAPHS,
    TRAINED,
    check_folder,
    check_weights,
    local_folder,
    read_export,
)
from contrastive_st.files.reading import read_json
from contrastive_st.files.redact import log_failures
from contrastive_st.files.writing import OPENED_BY, TOKENIZER_FILES, atomic_write, check_target
from contrastive_st.hub.cards import CardData, CheckpointMetadata, card_files
from contrastive_st.models.checkpoint import PROMPTS_FILE, modules_of

logger = logging.getLogger(__name__)
EVERYTHING = (*ENCODER, "*.md", "*.png", "*.svg", "*.py")  # of what `push` pushes
_SUFFIXES = (".safetensors", ".model", ".jinja", ".md", ".png", ".svg", ".py")
#: Any other text or JSON may be training data, but for the reports of the evaluation
_NAMES = (*TOKENIZER_FILES, "*_vocab.json", "vocab-*.json", "dict.txt", "word_*.json", "emoji.json", "byte_maps.json",
          "normalizer.json", "*.spm", "tokenizer.json", "*config*.json", "modules.json", "*.index.json",
          TRAINING_METADATA, f"*{CLASSIFIER[0]}", f"{EVAL_RESULTS}/*.yaml")  # fmt: skip
ARCHITECTURES = Path(__file__).parents[1] / "models" / "architectures"  # the code that travels with checkpoints
_LEFT_OUT = (STATE, TRAINED)  # the first names folders of this machine, the second is for resuming a run

# Files of a model on the Hub, by path; see `former_files`. `2_Dense/` is the folder of a module.
_SETTINGS = (*OPENED_BY, PROMPTS_FILE, "sentence_*_config.json")
_MODULE = r"([0-9]+_\w+/)?"
_WEIGHTS = re.compile(rf"{_MODULE}(adapter_)?model([.-][^/]*)?\.safetensors")
_OF_WEIGHTS = re.compile(
    rf"""
      {_MODULE}(adapter_|pytorch_|tf_|flax_|rust_|openvino_)?model([.-][^/]*)?\.(safetensors|bin|h5|msgpack|ot|onnx|xml)
    | {_MODULE}[^/]*model\.[^/]*index[^/]*\.json
    | [0-9]+_\w+/config\.json
    | ({"|".join(map(re.escape, (*GRAPHS, EVALUATION, EVAL_RESULTS)))})/.*
    | {"|".join(map(re.escape, (CURVE, STATE, TRAINING_METADATA)))}
    | [^/]*({"|".join(map(re.escape, CLASSIFIER))})
    """,
    re.VERBOSE,
)


def pull(name: str, revision: str | None = None, to: str | Path | None = None, token: str | None = None) -> Path:
    """Download a model. Later calls download only changed files, and nothing offline (`HF_HUB_OFFLINE=1`).

    Args:
        name: name on the Hub.
        revision: branch, tag or commit.
        to: a new folder to copy it into; by default it stays in the cache of the Hub's client.
        token: by default `HF_TOKEN`, or the token of the login.

    Returns:
        The folder of the model.

    Raises:
        InputError: the Hub cannot be reached, the model does not exist, you may not read it, it is damaged, or its
            weights are a pickle.
    """
    if to is not None:
        check_target(to, flag="", parents=True)
    if Path(name).is_dir():
        raise InputError(f"{name} is a folder here; give a name on the Hub (user/name)")
    if not constants.HF_HUB_OFFLINE:  # snapshot_download gives what is in the cache, also where the Hub refuses it
        with hub_errors(name, revision):
            HfApi(token=token).repo_info(name, revision=revision)
    folder = local_folder(name, revision, patterns=EVERYTHING, token=token)
    everything = list(EVERYTHING)
    if export := read_export(folder):
        everything.append(f"{export['backend']}/*")
        local_folder(name, revision, patterns=everything, token=token)
    else:
        check_weights(_weights(folder), name)
    if to is None:
        return folder
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    with atomic_write(to, flag="", parents=True) as new:
        for path in filter_repo_objects(files, allow_patterns=everything, ignore_patterns=list(RESUMING)):
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / path, new / path)  # the file itself, where the cache has a link
    return Path(to)


def push(
    folder: str | Path,
    repo: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    token: str | None = None,
    message: str | None = None,
    data: CardData | None = None,
    newer_than: float = 0.0,
    whole: Sequence[str] = (),
) -> CommitInfo:
    """Push a checkpoint folder with its card, in one commit; if nothing changed, no commit is made.

    The same commit removes what is left of a former model there, by which others would open that one, or parts of both
    (`former_files`); a line names these files. All other files stay.

    Args:
        folder: a folder that `save_pretrained`, a trainer or `export` wrote. Nothing in it is changed.
        repo: `user/name`; created if it does not exist.
        private: make it a private one; an existing public repository is refused.
        revision: branch to push to; created if it does not exist.
        create_pr: propose the commit as a pull request.
        token: by default `HF_TOKEN`, or the one logged in with.
        message: title of the commit.
        data: the entries of the card that only the author knows.
        newer_than: seconds since the epoch; older files of an evaluation are of other weights and are not pushed.
        whole: subfolders to push with all their files; others in these folders on the Hub are removed.

    Returns:
        The commit, with its URL and that of a pull request.

    Raises:
        InputError: the folder is not a checkpoint in safetensors or an exported one, has links out of it, is an adapter
            of the model there, or the Hub refuses the push.
    """
    folder, base = _checked(folder)
    with hub_errors(repo, revision):
        api = HfApi(token=token)
        repo = ready_repo(api, repo, private)
        check_base(base, repo, revision)
        if revision and not revision.startswith("refs/"):
            api.create_branch(repo, branch=revision, exist_ok=True)
        tree = api.list_repo_tree(repo, recursive=True, revision=revision)
        there = {file.path: file.lfs.sha256 if file.lfs else None for file in tree if isinstance(file, RepoFile)}
        card = Path(api.hf_hub_download(repo, CARD, revision=revision)) if CARD in there else None
    content = _content(folder, repo, data, newer_than, whole, card)
    added = [CommitOperationAdd(path, source) for path, source in content.items()]
    pushed = {operation.path_in_repo: operation.upload_info.sha256.hex() for operation in added}
    former = former_files(there, pushed, whole)
    removed = [CommitOperationDelete(path, is_folder=False) for path in former]
    with hub_errors(repo, revision):
        commit = api.create_commit(
            repo, [*added, *removed], commit_message=message or "Upload model", revision=revision, create_pr=create_pr
        )
    if former:
        logger.warning(f"{repo}: the commit removes files of a former model: {', '.join(former)}")
    return commit


def former_files(there: Mapping[str, str | None], pushed: Mapping[str, str], whole: Sequence[str] = ()) -> list[str]:
    """The files of a former model in a repository that must not stay next to those that are pushed.

    These are what says how a model is opened (config, adapter, modules, prompts, a tokenizer of other files). If the
    weights are others than those there, these are also all other weights (shards, pickles, exported graphs, those of
    modules), and what was made of them: classifiers, records of the training and of an evaluation. A graph is pushed
    without weights: those that it was made of stay.

    Args:
        there: SHA-256 of each large file in the repository, by path; None for a small one.
        pushed: SHA-256 of each file that is pushed, by path.
        whole: subfolders that are pushed with all their files.

    Returns:
        Paths, sorted.

    Example:
        >>> there = {"model.safetensors": "a1", "config.json": None, "LICENSE": None, "onnx/model.onnx": "b2"}
        >>> former_files(there, {"model.safetensors": "a1", "config.json": "c3"})
        []
        >>> former_files(there, {"model-00001-of-00002.safetensors": "d4", "config.json": "e5"})
        ['model.safetensors', 'onnx/model.onnx']
    """
    weights = {path: sha for path, sha in pushed.items() if _WEIGHTS.fullmatch(path)}
    same_weights = all(there.get(path) == sha for path, sha in weights.items())
    same_weights &= all(path in weights for path in there if _WEIGHTS.fullmatch(path))
    same_weights |= all("/" in path for path in weights) and any(path.split("/")[0] in GRAPHS for path in pushed)
    # a folder without a tokenizer takes the one there, but for an adapter, which takes its base's
    other_tokenizer = "tokenizer_config.json" in pushed or ADAPTER in pushed
    of_tokenizer = ("tokenizer.json", "tokenizer_config.json", *TOKENIZER_FILES) if other_tokenizer else ()

    def is_former(path: str) -> bool:
        if path.startswith(tuple(f"{folder}/" for folder in whole)):
            return True
        if "/" not in path and any(fnmatch(path, pattern) for pattern in (*_SETTINGS, *of_tokenizer)):
            return True
        return not same_weights and _OF_WEIGHTS.fullmatch(path) is not None

    return sorted(path for path in there if path not in pushed and is_former(path))


def dry_run(
    folder: str | Path, repo: str, data: CardData | None = None, revision: str | None = None
) -> dict[str, Path | bytes]:
    """The files that `push` would push, by their path on the Hub; the Hub is not contacted.

    Args:
        folder: as for `push`.
        repo: `user/name`; a card that is already there is not read.
        data: the entries of the card that only the author knows.
        revision: branch to push to.

    Returns:
        The content of each file, or the file it is read from.

    Raises:
        InputError: as `push` does for the folder.
    """
    folder, base = _checked(folder)
    check_base(base, repo, revision)
    return _content(folder, repo, data)


def check_base(base: str | None, repo: str, revision: str | None) -> None:
    """Check that an adapter does not replace its base, by whose name others open it.

    Args:
        base: the base of the adapter; None for a whole model.
        repo: `user/name` to push to.
        revision: branch to push to; on another than the main one the base stays.

    Raises:
        InputError: the repository is that of the base.

    Example:
        >>> check_base("alice/base", "alice/base", "adapter")
    """
    if base == repo and revision in (None, "main"):
        raise InputError(f"{repo} is the base of this adapter, which needs it; push the adapter under another name")


def _checked(folder: str | Path) -> tuple[Path, str | None]:
    """The folder, and the base of an adapter, of what may be pushed."""
    folder = Path(folder)
    base = CheckpointMetadata(folder).adapter_base
    check_folder(folder)
    if not (export := read_export(folder)):
        check_weights(_weights(folder), folder)
    elif not (folder / export["backend"]).is_dir():
        raise InputError(f"{folder} has no exported graph, {export['backend']}/; export it again")
    if (folder / ADAPTER).is_file() and base is None:
        raise InputError(
            f"{folder} is an adapter of a base that others cannot open: merge it (contrastive-st merge {folder} -o "
            f"NEW_FOLDER) and push that, or push the base and write its Hub name into {ADAPTER}"
        )
    return folder, base


def _weights(folder: Path) -> Path:
    """The folder of the weights: that of the first module of sentence-transformers, if it has modules."""
    modules = modules_of(folder) if (folder / "modules.json").is_file() else []
    return modules[0][1] if modules else folder


def _content(
    folder: Path,
    repo: str,
    data: CardData | None,
    newer_than: float = 0.0,
    under: Sequence[str] = (),
    there: Path | None = None,
) -> dict[str, Path | bytes]:
    content: dict[str, Path | bytes] = {path: folder / path for path in publishable_files(folder)}
    under = [*under, *([export["backend"]] if (export := read_export(folder)) else [])]
    content |= {p.relative_to(folder).as_posix(): p for sub in under for p in (folder / sub).rglob("*") if p.is_file()}
    for records in EVALUATION, EVAL_RESULTS:
        for path in (folder / records).glob("*"):
            if path.stat().st_mtime < newer_than:
                content.pop(f"{records}/{path.name}", None)
    with log_failures("the model is pushed without a new card"):
        if there is not None and was_edited(there) and not was_edited(folder / CARD):
            logger.warning("the card of %s was written or edited by hand there; it is left as it is", repo)
            content.pop(CARD, None)
        else:
            before = [there] if there else []
            content |= card_files(folder, before=before, name=repo, data=data, newer_than=newer_than)
    return dict(sorted(content.items()))


def publishable_files(folder: str | Path) -> list[str]:
    """Paths of the files that may be pushed.

    These are weights in safetensors, config, tokenizer, modules, card, training metadata, evaluation, training curve,
    and the files of this package's architectures. Never other code, pickles, optimizer states, logs, hidden files, or
    folders other than those of modules and of the evaluation.
    """
    folder = Path(folder)
    modules = folder / "modules.json"
    below = [folder / str(entry.get("path", "")) for entry in read_json(modules)] if modules.is_file() else []
    for path in [*below]:  # the routes of a router have folders of their own
        router = next(filter(Path.is_file, (path / "router_config.json", path / "config.json")), None)
        below += [] if router is None else [path / Path(name).name for name in read_json(router, dict).get("types", {})]
    places = dict.fromkeys([folder, *below, folder / EVALUATION, folder / EVAL_RESULTS])
    files = [path for part in places if part.is_dir() for path in sorted(part.iterdir()) if path.is_file()]

    def may_go(path: Path) -> bool:
        trusted = path.suffix != ".py" or (ARCHITECTURES / path.name).is_file()
        hidden = path.name.startswith((".", "_")) or path.name in _LEFT_OUT
        report = path.parent.name == EVALUATION and path.suffix == ".json"
        return trusted and not hidden and (report or path.suffix in _SUFFIXES or any(map(path.match, _NAMES)))

    return [path.relative_to(folder).as_posix() for path in files if may_go(path)]


def ready_repo(api: HfApi, repo: str, private: bool | None) -> str:
    """Create the repository if needed, check that it is as private as requested, and return its full name.

    Args:
        api: the client.
        repo: `user/name`.
        private: whether it must be private; None for any.

    Returns:
        The full name.
    """
    url = api.create_repo(repo, private=private, exist_ok=True)
    if private and not api.repo_info(url.repo_id).private:
        raise InputError(f"{url.repo_id} is public already; make it private in its settings, or push without --private")
    return url.repo_id
