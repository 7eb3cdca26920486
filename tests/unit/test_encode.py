"""How texts reach a model: in the order of their tokens, and of a long text its beginning; the precision of `auto`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.retrieval_data import WORDS, tiny_bert, word
from udfs.retrieval import encode
from udfs.retrieval.encode import Encoder, load_encoder


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A model that reads 16 tokens."""
    folder: Path = tiny_bert(tmp_path_factory.mktemp("tiny-bert"))
    yield load_encoder(Encoder(str(folder), "tokens", 16, 8))
    load_encoder.cache_clear()


@pytest.mark.parametrize(
    ("feature", "chosen"),
    [("_is_avx512_bf16_supported", "bfloat16"), ("_is_amx_tile_supported", "bfloat16"), (None, "float32")],
)
def test_auto_goes_by_the_processor(feature: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda has=name == feature: has, raising=False)
    assert encode.native_precision() == chosen


def test_texts_of_as_many_tokens_share_a_batch(loaded: Any) -> None:
    """Characters would put the long word among the longest texts."""
    texts = ["w001 w002", "w" * 90, " ".join(word(n) for n in range(9)), ""]
    order, read = encode.by_tokens(loaded, texts)
    assert order.tolist() == [2, 0, 1, 3]
    assert read == [texts[n] for n in order]


def test_a_model_reads_the_beginning_of_a_long_text(loaded: Any) -> None:
    """Its vector is that of the whole text; if the beginning has too few tokens, the model gets the rest as well."""
    words = " ".join(word(n) for n in range(WORDS))
    texts = [words, f"{'w' * 250} {words}", f"{' ' * 300}{words}", f"{'w' * 300} {words}", words[:40]]
    order, read = encode.by_tokens(loaded, texts)
    kept = dict(zip(order.tolist(), map(len, read), strict=True))
    assert kept[0] <= 16 * encode.MOST_CHARACTERS < len(words)
    assert [kept[n] for n in range(1, 5)] == [len(text) for text in texts[1:]]
    alone = [loaded.encode([text], normalize_embeddings=True)[0] for text in texts]
    np.testing.assert_allclose(encode.encode(loaded, texts, 2), alone, atol=1e-6)
