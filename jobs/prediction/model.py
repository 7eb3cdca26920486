"""A model that labels texts, as it is kept: what retrievers have learned, the fusion, calibration and labels.

Its folder has a manifest, and the files that this lists with their sizes and digests. The files are in a folder named
after their content, and the manifest is put last, in one piece: a model is whole or not there, on any store. The folder
can be moved and may be read-only. Nothing in it is code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from fusion.cells import ANY_FOLD
from fusion.errors import InputError, OutputError
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.models.calibration import Calibration, calibration_from_json
from fusion.models.strategies import DEPLOYED
from jobs.evaluation.model_file import ModelFile, parsed_model
from jobs.storage.folders import output_errors, probe
from udfs.fuse import FusionPlan
from udfs.json_records import parse_json
from udfs.lists import LabelGroups, Layout
from udfs.prediction.model import Assigning, Fuser, LabelNames, Model
from udfs.prediction.texts import TEXT_ID
from udfs.retrieval.bm25 import Bm25
from udfs.retrieval.linear import Linear
from udfs.retrieval.retriever import Retriever
from udfs.retrieval.static import Static
from udfs.retrieval.tree import Tree
from udfs.retrieval.vectors import Dense
from udfs.stores.addresses import absolute
from udfs.stores.cache import readable_folder
from udfs.stores.objects import children, delete_folder, exists, files_below, put, read_bytes, send_file
from udfs.tuning import TrainTexts

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


LABELS, TEXTS, FUSION = "labels.parquet", "texts.parquet", "fusion.json"
LABEL_COLUMNS = ("label_id", "label", "name", "label_group", "frequency")
KINDS: dict[str, type] = {"bm25": Bm25, "static": Static, "dense": Dense, "linear": Linear, "tree": Tree}
"""What a model can hold, by the name in the manifest."""
TRAINING_ONLY = {"text_tokens": "", "label_tokens": "", "tables": (), "trained": None}
"""Where training found its texts, which a model in another place does not know."""
LONGEST = 64
"""Labels in a fused list."""


@dataclass(frozen=True)
class Parts:
    """What a model is made of."""

    retrievers: tuple[Retriever, ...]
    fusion: str
    """The text of a model file of `tune`, or of the same form."""
    labels: pa.Table
    """label_id, label, name, label_group and the number of training texts, by label_id."""
    texts: pa.Table
    """text_id of the training texts, ascending, as retrievers number them."""
    calibrations: Mapping[str, Calibration]
    assigning: Assigning
    about: Mapping[str, Any]
    """What else the manifest says: settings, versions, training texts, figures."""


def keep(uri: str, parts: Parts, folders: Mapping[str, Path], overwrite: bool) -> int:
    """Write a model; `folders` has what each retriever has learned, by its name. The size in bytes."""
    about = {
        "retrievers": [_described(retriever) for retriever in parts.retrievers],
        "calibration": {group: curve.to_json() for group, curve in parts.calibrations.items()},
        "assignment": {"top": parts.assigning.top, "threshold": parts.assigning.threshold},
        **parts.about,
    }
    with TemporaryDirectory(prefix="xmtc-fusion-") as scratch:
        place = Path(scratch)
        pq.write_table(parts.labels.select(LABEL_COLUMNS), place / LABELS)
        pq.write_table(parts.texts.select([TEXT_ID]), place / TEXTS)
        (place / FUSION).write_text(parts.fusion, encoding="utf-8")
        files = {name: place / name for name in (LABELS, TEXTS, FUSION)}
        for name, folder in folders.items():
            files |= files_in(folder, name)
        return write_model(uri, files, about, overwrite)


def _described(retriever: Retriever) -> dict[str, Any]:
    kind = next(name for name, kept in KINDS.items() if isinstance(retriever, kept))
    known: Any = retriever
    bare = replace(known, **{name: value for name, value in TRAINING_ONLY.items() if hasattr(known, name)})
    return {"kind": kind, **TypeAdapter(KINDS[kind]).dump_python(bare, mode="json")}


@dataclass(frozen=True)
class KeptModel:
    """A model in its folder."""

    uri: str
    manifest: Mapping[str, Any]
    place: Path

    @property
    def fingerprint(self) -> str:
        """That of all that the model is made of."""
        return str(self.manifest["folder"])

    @cached_property
    def labels(self) -> pa.Table:
        return pq.read_table(self.place / LABELS).sort_by("label_id")

    @cached_property
    def names(self) -> LabelNames:
        return LabelNames(*(self.labels[name].combine_chunks() for name in ("label", "name")))

    @cached_property
    def text_ids(self) -> pa.Array:
        """The ids of the training texts, as retrievers number them."""
        return pq.read_table(self.place / TEXTS)[TEXT_ID].combine_chunks()

    @cached_property
    def assigning(self) -> Assigning:
        return Assigning(**self.manifest["assignment"])

    @cached_property
    def fusion(self) -> ModelFile:
        return parsed_model((self.place / FUSION).read_text(encoding="utf-8"), f"{self.uri}/{FUSION}")

    @cached_property
    def retrievers(self) -> tuple[Retriever, ...]:
        try:
            return tuple(self._retriever(dict(described)) for described in self.manifest["retrievers"])
        except (ValidationError, KeyError, TypeError) as error:
            raise InputError(f"{self.uri}/{MANIFEST}: a retriever cannot be read: {error}") from None

    def _retriever(self, described: dict[str, Any]) -> Retriever:
        retriever: Retriever = TypeAdapter(KINDS[described.pop("kind")]).validate_python(described)
        return retriever

    @cached_property
    def model(self) -> Model:
        """What workers get."""
        groups = self.retrievers[0].groups
        layout = Layout(tuple(retriever.name for retriever in self.retrievers), groups, self._label_groups(groups))
        scope: Scope = self.fusion.scope
        plan = FusionPlan(
            layout=layout,
            cells=(),
            views=(ALL,),
            scope=scope,
            top=LONGEST,
            text_type=pa.int64(),
            label_type=pa.int32(),
            policies=self.fusion.policies,
            strategies={DEPLOYED: self.fusion.strategy},
        )
        calibrations = {name: calibration_from_json(it) for name, it in self.manifest["calibration"].items()}
        return Model(
            folder=f"{absolute(self.uri)}/{self.fingerprint}",
            fingerprint=self.fingerprint,
            retrievers=self.retrievers,
            fuser=Fuser(plan, self._train_texts()),
            calibrations=calibrations,
        )

    def _label_groups(self, names: Sequence[str]) -> LabelGroups:
        of_label = pc.index_in(self.labels["label_group"].combine_chunks(), value_set=pa.array(names))
        codes = of_label.to_numpy().astype(np.int8)
        return LabelGroups(tuple(names), self._ids, codes, source=f"{self.uri}/{LABELS}")

    @property
    def _ids(self) -> pa.Array:
        return self.labels["label_id"].combine_chunks().cast(pa.int32())

    def _train_texts(self) -> TrainTexts | None:
        """How many training texts carry each label, where the fusion reads it."""
        if not self.fusion.reads_training:
            return None
        counts = np.append(self.labels["frequency"].to_numpy(), 0).astype(np.int32)
        return TrainTexts(np.array([ANY_FOLD]), self._ids, counts[None, :], float(self.manifest["training"]["texts"]))


def load(uri: str) -> KeptModel:
    """A model, after a look at all of its files."""
    manifest = read_manifest(uri)
    return KeptModel(uri, manifest, open_folder(uri, manifest))


def copy_model(kept: KeptModel, uri: str, overwrite: bool) -> int:
    """Write a model to another address; the size in bytes."""
    files = {name: kept.place / name for name in kept.manifest["files"]}
    about = {name: value for name, value in kept.manifest.items() if name not in OF_FOLDER}
    return write_model(uri, files, about, overwrite)
