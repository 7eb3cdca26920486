"""The folder of a model: a manifest, and the files that it lists with their sizes and digests.

The files are in a folder named after their content, and the manifest is put last, in one piece: a model is whole or not
there, on any store. The folder can be moved and may be read-only. Nothing in it is code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fusion.errors import InputError, OutputError
from jobs.storage.folders import output_errors, probe
from udfs.json_records import parse_json
from udfs.stores.addresses import absolute
from udfs.stores.cache import readable_folder
from udfs.stores.objects import children, delete_folder, exists, files_below, put, read_bytes, send_file

MANIFEST = "model.json"
KIND, FORMAT = "xmtc-fusion model", 1
CONTENT = re.compile("[0-9a-f]{16}")
"""The name of the folder with the files, which follows from their content."""
OF_FOLDER = ("kind", "format", "folder", "files")
"""What the manifest says of the folder; all else is about the model."""


def write_model(uri: str, files: Mapping[str, Path], about: Mapping[str, Any], replace: bool) -> int:
    """Keep files, by their names in the model, as a model at an address; its size in bytes.

    A model that is there is replaced only if the caller says so, and stays readable until the new one is whole.
    """
    with output_errors(uri):
        return _write(uri, files, about, check_place(uri, replace))


def _write(uri: str, files: Mapping[str, Path], about: Mapping[str, Any], left: Sequence[str]) -> int:
    digests: dict[str, tuple[int, str]] = {}
    for name, path in sorted(files.items()):
        digests[name] = path.stat().st_size, _digest(path)
    # As it will be read: keys become strings.
    about = json.loads(json.dumps(dict(about)))
    content = _content(digests, about)
    for name, path in files.items():
        send_file(path, f"{uri}/{content}/{name}")
    manifest = {"kind": KIND, "format": FORMAT, **about, "folder": content, "files": digests}
    put(f"{uri}/{MANIFEST}", (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
    for name in left:
        if name != content:
            delete_folder(f"{uri}/{name}")
    return sum(size for size, _ in digests.values())


def check_place(uri: str, replace: bool) -> list[str]:
    """Refuse a place that cannot be written, or holds something else, or a model that is not to be replaced; folders of
    content that are there: an earlier model's, and what a writer that was killed has left."""
    with output_errors(uri):
        # A look at whether a store can be written leaves a folder with such a name.
        present = [name for name in children(uri) if not name.startswith(".")] if exists(uri) else []
    ours = [name for name in present if CONTENT.fullmatch(name)]
    if len(ours) < len(present) and MANIFEST not in present:
        raise OutputError(f"{uri} is not empty and holds no model: choose another folder for the model")
    if MANIFEST in present and not replace:
        raise OutputError(f"{uri} holds a model already: choose another folder, or replace it (--mode overwrite)")
    with output_errors(uri):
        probe(uri)
    return ours


def read_manifest(uri: str) -> dict[str, Any]:
    """What is known about a model, after a look at the sizes of its files."""
    place = f"{uri}/{MANIFEST}"
    try:
        content = read_bytes(place)
    except OSError as error:
        raise InputError(f"cannot read the model {place}: {error}") from None
    if content is None:
        raise InputError(f"{uri} holds no model: there is no {MANIFEST} (fit writes it last, when the model is whole)")
    damaged = f"{place} is damaged: {{}}; fit the model again, or copy it again"
    try:
        manifest = parse_json(content.decode())
        kind, number = manifest["kind"], manifest["format"]
        files, folder = manifest["files"], manifest["folder"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(damaged.format(repr(error))) from None
    if kind != KIND or type(number) is not int:
        raise InputError(f"{place} describes no model of this program: its kind is {kind!r}")
    if number > FORMAT:
        raise InputError(f"{place} has format {number}, which a newer version wrote; this one reads up to {FORMAT}")
    if folder != _content(files, {name: value for name, value in manifest.items() if name not in OF_FOLDER}):
        raise InputError(damaged.format("it does not say what was written"))
    sizes = {listed.name: listed.size for listed in files_below(f"{uri}/{folder}")}
    for name, (size, _) in sorted(files.items()):
        if name not in sizes:
            raise InputError(f"the model {uri} is incomplete: {folder}/{name} is missing; copy the whole folder")
        if sizes[name] != size:
            raise InputError(
                f"the model {uri} is damaged: {folder}/{name} has {sizes[name]:,} bytes and was written with {size:,}; "
                "copy it again"
            )
    return dict(manifest)


def _content(digests: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The name of the folder with the files of a model."""
    return hashlib.sha256(json.dumps([digests, about], sort_keys=True).encode()).hexdigest()[:16]


def files_in(folder: Path, name: str) -> dict[str, Path]:
    """The files of a folder, by the names that they have in a model."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {f"{name}/{path.relative_to(folder).as_posix()}": path for path in files}


def open_folder(uri: str, manifest: Mapping[str, Any]) -> Path:
    """A local folder with the files of a model, their digests compared with the manifest."""
    uri = absolute(uri)
    place = readable_folder(f"{uri}/{manifest['folder']}", str(manifest["folder"]))
    for name, (_, digest) in sorted(manifest["files"].items()):
        if _digest(place / name) != digest:
            raise InputError(
                f"the model {uri} is damaged: the content of {manifest['folder']}/{name} has changed; copy it again"
            )
    return place


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
