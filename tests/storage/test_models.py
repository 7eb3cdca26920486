"""A model in an object store: written, opened, replaced, damaged, and applied to texts that are there as well."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import xmtc_fusion as xf
from jobs.prediction import fit, predict
from jobs.prediction.model import check_place
from jobs.settings.config import load_config
from tests.models import fitted, made_config, new_texts, write_lines
from tests.storage.conftest import BUCKET, content, keys
from udfs.prediction.model import opened
from udfs.stores import cache

PLACE = f"s3://{BUCKET}/models/made"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return fitted(tmp_path_factory.mktemp("fitted"))


@pytest.fixture(autouse=True)
def fetched(tmp_path, monkeypatch) -> Path:
    """Where this machine keeps what it fetches."""
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_checked", set())
    return tmp_path / "cache"


def forget(fetched: Path) -> None:
    """As on another machine."""
    shutil.rmtree(fetched)
    cache._checked.clear()
    opened.cache_clear()


def test_a_model_is_kept_and_replaced(s3, folder, fetched) -> None:
    here, texts = xf.load_model(str(folder)), new_texts()[:20]
    # Whether it can be written is asked before anything is fitted, and leaves the place free.
    assert check_place(PLACE, replace=False) == check_place(PLACE, replace=False) == []
    here.save(PLACE)
    assert xf.load_model(PLACE).predict(texts).equals(here.predict(texts))
    with pytest.raises(xf.OutputError, match="holds a model already"):
        here.save(PLACE)
    first = keys(s3)
    # The same work folder, another fusion.
    config = made_config(
        folder.parent / "work", **{"output.path": PLACE, "output.mode": "overwrite", "grid.cells": ["rank+combsum"]}
    )
    fit.run(config)
    forget(fetched)
    other = xf.load_model(PLACE)
    assert "rank+combsum" in repr(other) and other.predict(texts).num_rows
    # Nothing of the first model is left.
    assert {name.split("/")[2] for name in keys(s3)} & {name.split("/")[2] for name in first} == {"model.json"}
    with pytest.raises(xf.InputError, match=r"holds no model: there is no model\.json"):
        xf.load_model(f"s3://{BUCKET}/nothing")


def test_what_is_damaged_in_the_store_is_named(s3, folder, fetched) -> None:
    xf.load_model(str(folder)).save(PLACE)
    (name,) = [name for name in keys(s3) if name.endswith("static/vectors.npy")]
    whole = content(s3, name)
    s3.put_object(Bucket=BUCKET, Key=name, Body=whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(xf.InputError, match=r"damaged: the content of \w+/static/vectors.npy has changed"):
        xf.load_model(PLACE)
    s3.delete_object(Bucket=BUCKET, Key=name)
    forget(fetched)
    with pytest.raises(xf.InputError, match=r"incomplete: \w+/static/vectors.npy is missing"):
        xf.load_model(PLACE)


def test_what_is_damaged_on_this_machine_is_fetched_again(s3, folder, fetched) -> None:
    here = xf.load_model(str(folder))
    here.save(PLACE)
    xf.load_model(PLACE)
    (file,) = fetched.rglob("static/vectors.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    cache._checked.clear()
    opened.cache_clear()
    assert xf.load_model(PLACE).predict(new_texts()[:5]).equals(here.predict(new_texts()[:5]))


def test_texts_and_labels_in_the_store(s3, folder, tmp_path) -> None:
    xf.load_model(str(folder)).save(PLACE)
    ids = [f"t{n}" for n in range(len(new_texts()))]
    s3.upload_file(write_lines(tmp_path / "new.jsonl", ids), BUCKET, "new.jsonl")
    for texts, place in ((f"s3://{BUCKET}/new.jsonl", f"s3://{BUCKET}/out"), (f"{tmp_path}/new.jsonl", str(tmp_path))):
        chosen: dict[str, Any] = {"predict.model": PLACE, "predict.texts": texts, "predict.top": 3}
        predict.run(load_config(None, {**chosen, "grid.engine": "local", "output.path": f"{place}/labelled"}))
    written = content(s3, "out/labelled/predictions.jsonl")
    assert written == (tmp_path / "labelled" / "predictions.jsonl").read_bytes()
    assert len(json.loads(written.splitlines()[0])["labels"]) == 3
