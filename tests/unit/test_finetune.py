"""Full fine-tuning: cached gradients, a collapse, and a training that goes on after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fusion.retrieval.contrastive import CollapseError, LabelSets, Side, cached_step, negatives, nt_xent
from jobs.settings.built_in import DenseSettings
from tests.retrieval_data import LABELS, make_data, tiny_bert, word
from udfs.retrieval.encode import Encoder, load_encoder
from udfs.retrieval.finetune import Checkpoints, PairTexts, fit, own_gpu, tokenized

CHUNK = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


def fresh(folder: Path) -> Any:
    load_encoder.cache_clear()
    return load_encoder(encoder(folder))


def encoder(folder: Path) -> Encoder:
    return Encoder(str(folder), "tiny", 16, CHUNK)


def pair_texts() -> PairTexts:
    data = make_data()
    offsets = np.concatenate(([0], np.cumsum([len(some) for some in data["labels"]])))
    known = LabelSets(offsets, np.concatenate([np.array(some) for some in data["labels"]]))
    return PairTexts(data["texts"], [word(5 * n) for n in range(LABELS)], known)


def settings(**chosen: Any) -> Any:
    return DenseSettings(**{"train_batch": 32, "epochs": 2, "learning_rate_high": 1e-3, **chosen}).training


def trained(folder: Path, checkpoints: Checkpoints, **chosen: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    model, pairs = fresh(folder), pair_texts()
    report = fit(model, pairs, pairs, settings(**chosen), encoder(folder), checkpoints, "fold 7")
    return report, {name: value.clone() for name, value in model.state_dict().items()}


def test_cached_gradients_are_those_of_the_whole_batch(folder) -> None:
    pairs = pair_texts()
    texts, labels = (side[:20] for side in pairs.known.pairs())
    plain = [pairs.texts[i] for i in texts], [pairs.label_texts[i] for i in labels]
    sides = Side.of(texts, pairs.texts), Side.of(labels, pairs.label_texts)
    assert len(sides[0].texts) < 20
    assert [[side.texts[row] for row in side.rows] for side in sides] == list(plain)
    mask = torch.from_numpy(negatives(labels, pairs.known.take(texts)))
    model = fresh(folder).double().eval()

    def vectors(some: list[str]) -> Any:
        return model(tokenized(model, some))["sentence_embedding"]

    loss = nt_xent(vectors(plain[0]), vectors(plain[1]), mask, 0.07)
    loss.backward()
    whole = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    model.zero_grad()
    assert cached_step(vectors, sides, mask, 0.07, 6) == pytest.approx(loss.item(), rel=1e-6)
    assert whole
    for name, value in model.named_parameters():
        if name in whole:
            torch.testing.assert_close(value.grad, whole[name], rtol=0, atol=1e-6)


def test_a_chunk_is_repeated_with_its_random_numbers(folder) -> None:
    """With dropout, the second time must see what the first one saw."""
    seen: dict[str, list[Any]] = {}
    model = fresh(folder).train()

    def vectors(some: list[str]) -> Any:
        out = model(tokenized(model, some))["sentence_embedding"]
        seen.setdefault(some[0], []).append(out.detach().clone())
        return out

    each = np.arange(6)
    sides = Side([word(n) for n in range(6)], each), Side([word(n) for n in range(6, 12)], each)
    cached_step(vectors, sides, torch.ones((6, 6), dtype=torch.bool), 0.07, 2)
    assert len(seen) == 6
    for first, second in seen.values():
        torch.testing.assert_close(first, second)


class Killed(Checkpoints):
    """Saves after every step, and is killed right after one of them."""

    left = 3

    @property
    def due(self) -> bool:
        return True

    def save(self, state: dict[str, Any]) -> None:
        super().save(state)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("left", [3, 8, 9])
def test_a_killed_training_ends_the_same(folder, tmp_path, left) -> None:
    """In the middle of the first epoch, at its end, and in the second one."""
    report, weights = trained(folder, Checkpoints(str(tmp_path / "whole"), 1e9))
    assert report["mrr"][report["best"]] > report["mrr"][0]
    killed = Killed(str(tmp_path / "killed"), 0)
    killed.left = left
    with pytest.raises(KeyboardInterrupt):
        trained(folder, killed)
    torch.manual_seed(123)
    again, resumed = trained(folder, Checkpoints(str(tmp_path / "killed"), 1e9))
    assert again == report
    for name, value in weights.items():
        torch.testing.assert_close(resumed[name], value, rtol=0, atol=1e-6)


def test_a_collapse_is_caught(folder, tmp_path) -> None:
    with pytest.raises(CollapseError, match=r"fold 7, epoch \d: .*learning_rate_high"):
        trained(folder, Checkpoints(str(tmp_path), 1e9), learning_rate_high=0.5, epochs=4)


def test_every_fold_has_a_gpu_of_its_own() -> None:
    assert [own_gpu(fold, [], 8) for fold in range(5)] == [0, 1, 2, 3, 4]
    assert [own_gpu(fold, [], 2) for fold in range(5)] == [0, 1, 0, 1, 0]
    assert own_gpu(0, ["3"], 4) == 3, "what Spark has granted counts"
    assert own_gpu(4, ["3"], 1) == 0, "the only one that the task can see"
    assert own_gpu(4, ["MIG-1f"], 1) == 0


def test_mixed_precision_learns_the_same_thing(folder, tmp_path) -> None:
    """Products rounded to 8 bits change the weights a little, and the outcome hardly."""
    pairs, reports = pair_texts(), []
    for precision in ("float32", "bfloat16"):
        model, chosen = fresh(folder), replace(encoder(folder), precision=precision)
        checkpoints = Checkpoints(str(tmp_path / precision), 1e9)
        reports.append(fit(model, pairs, pairs, settings(epochs=1), chosen, checkpoints, "fold 7"))
        assert {value.dtype for value in model.state_dict().values() if value.is_floating_point()} == {torch.float32}
    plain, rounded = (report["mrr"] for report in reports)
    assert rounded[1] > rounded[0]
    assert rounded[1] == pytest.approx(plain[1], abs=0.05)
    assert rounded[1] != plain[1]
