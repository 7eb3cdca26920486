"""Encoding in whole numbers of 8 bits: by its formula, near the exact vectors, and refused where it cannot be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusion.errors import SetupError
from fusion.retrieval.int8 import quantized_rows, quantized_weights, restore
from udfs import encode, int8
from udfs.encode import Encoder, load_encoder

RANDOM = np.random.default_rng(0)
TEXTS = Path(__file__).parents[2] / "data" / "debtags" / "texts.jsonl.gz"
machine_has_it = pytest.mark.skipif(int8.int8_problem() is not None, reason=str(int8.int8_problem()))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Models of other tests are left out, and what was found out about the machine is found out anew."""
    load_encoder.cache_clear()
    int8.int8_problem.cache_clear()
    yield
    load_encoder.cache_clear()
    int8.int8_problem.cache_clear()


def some_texts(count: int) -> list[str]:
    with gzip.open(TEXTS, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line, _ in zip(lines, range(count), strict=False)]


def test_rows_come_back_within_half_a_step() -> None:
    rows = (RANDOM.normal(size=(50, 33)) * RANDOM.uniform(0.01, 90, (50, 1)) + 5).astype(np.float32)
    low = rows.min(axis=1)
    codes, step = quantized_rows(rows, low, rows.max(axis=1))
    assert (codes.min(axis=1) == 0).all()
    assert (codes.max(axis=1) == 255).all()
    assert (np.abs(low[:, None] + step[:, None] * codes - rows) <= step[:, None] * 0.501).all()


def test_rows_of_equal_values_and_outputs_without_weights_are_exact() -> None:
    rows = np.array([[3, 3, 3], [0, 0, 0], [-7, -7, -7]], np.float32)
    codes, step = quantized_rows(rows, rows.min(axis=1), rows.max(axis=1))
    weights, steps = quantized_weights(np.array([[0, 0, 0], [1, -127, 64]], np.float32))
    assert weights.tolist() == [[0, 0, 0], [1, -127, 64]]
    products = (codes.astype(np.float32) @ weights.T.astype(np.float32)) * steps
    sums, bias = (weights.sum(axis=1) * steps).astype(np.float32), np.array([0.5, 1], np.float32)
    restore(products, rows.min(axis=1), step, sums, bias)
    assert products.tolist() == [[0.5, 3 * -62 + 1], [0.5, 1], [0.5, -7 * -62 + 1]]


@machine_has_it
def test_a_layer_is_its_formula() -> None:
    """oneDNN's products beside those of the rounded numbers in double precision, and near the exact ones."""
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(70, 31)
    inputs = torch.randn(4, 5, 70)
    with torch.no_grad():
        outputs, exact = int8._layer_type()(layer)(inputs).numpy(), layer(inputs).numpy()
    rows = inputs.numpy().reshape(20, 70)
    codes, step = quantized_rows(rows, rows.min(axis=1), rows.max(axis=1))
    weights, steps = quantized_weights(layer.weight.detach().numpy())
    rounded_rows = rows.min(axis=1)[:, None] + step[:, None] * codes.astype(np.float64)
    wanted = rounded_rows @ (weights * steps[:, None].astype(np.float64)).T + layer.bias.detach().numpy()
    np.testing.assert_allclose(outputs.reshape(20, 31), wanted, atol=1e-5)
    assert 0 < np.abs(outputs - exact).max() < 0.03


@machine_has_it
def test_vectors_of_the_bundled_model_change_little() -> None:
    texts = some_texts(24)
    exact, rounded = (
        encode.encode(load_encoder(Encoder("bundled:minilm", precision, 96, 8, 1, precision)), texts, 8)
        for precision in ("float32", "int8")
    )
    np.testing.assert_allclose(np.linalg.norm(rounded, axis=1), 1, atol=1e-5)
    cosines = (exact * rounded).sum(axis=1)
    assert 0.995 < cosines.min() < 0.99999


@machine_has_it
def test_a_vector_depends_little_on_its_company() -> None:
    """Every token has a scale of its own. Texts that are padded differ, since the last bits of their attention do and
    so some values fall to the next step; texts of full length are the same to the bit."""
    texts = some_texts(12)
    model = load_encoder(Encoder("bundled:minilm", "company", 96, 12, 1, "int8"))
    together, alone = (encode.encode(model, texts, size) for size in (12, 1))
    assert (together * alone).sum(axis=1).min() > 0.998
    sizes = np.array([len(ids) for ids in model.tokenizer(texts, truncation=True, max_length=96)["input_ids"]])
    assert (sizes == 96).any()
    np.testing.assert_allclose(together[sizes == 96], alone[sizes == 96], atol=1e-6)


@machine_has_it
def test_every_linear_layer_is_replaced() -> None:
    torch = pytest.importorskip("torch")
    model = load_encoder(Encoder("bundled:minilm", "layers", 96, 8, 1, "int8"))
    kinds = [type(layer) for layer in model.modules()]
    assert torch.nn.Linear not in kinds
    assert kinds.count(int8._layer_type()) >= 6 * 6


@pytest.mark.parametrize(
    ("features", "chosen", "trained"),
    [
        ({"_is_vnni_supported", "_is_avx512_bf16_supported"}, "int8", "bfloat16"),
        ({"_is_vnni_supported"}, "int8", "float32"),
        ({"_is_avx512_bf16_supported"}, "bfloat16", "bfloat16"),
        ({"_is_vnni_supported", "_is_amx_tile_supported"}, "bfloat16", "bfloat16"),
        (set(), "float32", "float32"),
    ],
)
def test_auto_goes_by_the_processor(
    features: set[str], chosen: str, trained: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("_is_vnni_supported", "_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda has=name in features: has)
    assert encode.native_precision() == chosen
    assert encode.trainable_precision(encode.native_precision()) == trained


def test_int8_is_refused_where_it_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    with pytest.raises(
        SetupError, match=r"dense\.precision int8: .* no AVX-512 VNNI; choose auto, bfloat16 or float32"
    ):
        load_encoder(Encoder("bundled:minilm", "refused", 96, 8, 1, "int8"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    int8.int8_problem.cache_clear()
    assert int8.int8_problem() == "models are loaded to the GPU"
