"""The static bi-encoder: its sums and gradients against PyTorch, what it learns, and the model that it saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from fusion.errors import InputError
from fusion.retrieval import static
from fusion.retrieval.bags import WEIGHT_DECAY, Adam, Bags, backward, bag_sums, columns_of, forward, joined, thinned
from fusion.retrieval.contrastive import CollapseError, LabelSets, nt_xent
from fusion.retrieval.projection import unit
from fusion.retrieval.ranked import Ranked, interleaved
from fusion.retrieval.static import (
    Labelled,
    StaticModel,
    StaticTraining,
    frequency_bias,
    rising_and_falling,
    train_static,
    with_bias,
    word_vectors,
)
from udfs.retrieval.encode import find_model
from udfs.retrieval.pieces import (
    StaticStart,
    first_vectors,
    open_tokenizer,
    read_vectors,
    save_model,
    token_bags,
)

TOKENS, WIDTH = 40, 16
TRAINING = StaticTraining(learning_rate=0.01, epochs=6, patience=3, train_batch=16, extra_labels=4)


def make_bags(rng: np.random.Generator, sizes: list[int], tokens: int = TOKENS) -> Bags:
    rows = [np.sort(rng.choice(tokens, size, replace=False)) for size in sizes]
    token = np.concatenate([np.empty(0, int), *rows]).astype(np.int32)
    offset = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return Bags(offset, token, rng.integers(1, 4, len(token)).astype(np.float32))


def as_matrix(bags: Bags) -> np.ndarray:
    matrix = np.zeros((len(bags.offset) - 1, TOKENS), np.float32)
    matrix[np.repeat(np.arange(len(matrix)), np.diff(bags.offset)), bags.token] = bags.times
    return matrix


def test_sums_are_a_matrix_product() -> None:
    rng = np.random.default_rng(0)
    bags = make_bags(rng, [3, 0, 1, 7])
    table = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(bag_sums(bags, table), as_matrix(bags) @ table, rtol=1e-5, atol=1e-5)
    more = joined(bags, make_bags(rng, [2, 2]))
    assert len(more.offset) == 7
    np.testing.assert_array_equal(as_matrix(more)[:4], as_matrix(bags))


def test_a_step_is_that_of_torch() -> None:
    """Token vectors and weights after steps of AdamW, where every token is in every batch."""
    rng = np.random.default_rng(1)
    bags = make_bags(rng, [TOKENS] * 5)
    start = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    first_weights = rng.uniform(0.5, 2, (TOKENS, 1)).astype(np.float32)
    vectors, weights = Adam.of(start), Adam.of(first_weights)
    wanted = [torch.from_numpy(array.copy()).requires_grad_() for array in (start, first_weights)]
    groups = [{"params": [wanted[0]], "lr": 0.01}, {"params": [wanted[1]], "lr": 0.1}]
    optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
    target = torch.from_numpy(rng.standard_normal((3, WIDTH)).astype(np.float32))
    for number in range(1, 4):
        chosen = rng.permutation(5)[:3]
        columns = columns_of(bags, chosen, TOKENS)
        sums = torch.from_numpy(forward(columns, vectors.value, weights.value, 3)).requires_grad_()
        ((sums - target) ** 2).sum().backward()
        backward(columns, sums.grad.numpy(), vectors, weights, number, (0.01, 0.1))
        optimizer.zero_grad()
        theirs = torch.from_numpy(as_matrix(bags)[chosen]) @ (torch.relu(wanted[1]) * wanted[0])
        torch.testing.assert_close(sums.detach(), theirs.detach(), rtol=1e-4, atol=1e-4)
        ((theirs - target) ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(vectors.value, wanted[0].detach().numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(weights.value, wanted[1].detach().numpy(), rtol=1e-4, atol=1e-4)


def test_tokens_outside_the_batch_stay() -> None:
    rng = np.random.default_rng(2)
    bags = make_bags(rng, [4, 4, 4])
    start = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    vectors, weights = Adam.of(start), Adam.of(np.ones((TOKENS, 1), np.float32))
    columns = columns_of(bags, np.array([1]), TOKENS)
    backward(columns, np.ones((1, WIDTH), np.float32), vectors, weights, 1, (0.01, 0.1))
    changed = np.flatnonzero((vectors.value != start).any(axis=1))
    assert changed.tolist() == bags.token[bags.offset[1] : bags.offset[2]].tolist()


def made_fold(labels: int = 8, texts: int = 160) -> tuple[Labelled, Labelled, Bags, np.ndarray]:
    """Texts that hold a token of each of their labels; names say nothing, so that it has to be learned."""
    rng = np.random.default_rng(5)
    sets = [np.sort(rng.choice(labels, rng.integers(1, 3), replace=False)) for _ in range(texts)]
    rows = [np.unique(np.concatenate((some, rng.integers(labels, TOKENS - labels, 3)))) for some in sets]
    names = Bags(np.arange(labels + 1), np.arange(TOKENS - labels, TOKENS, dtype=np.int32), np.ones(labels, np.float32))

    def labelled(begin: int, end: int) -> Labelled:
        offset = np.concatenate(([0], np.cumsum([len(row) for row in rows[begin:end]])))
        token = np.concatenate(rows[begin:end]).astype(np.int32)
        known = LabelSets(
            np.concatenate(([0], np.cumsum([len(s) for s in sets[begin:end]]))), np.concatenate(sets[begin:end])
        )
        return Labelled(Bags(offset, token, np.ones(len(token), np.float32)), known)

    return labelled(0, 120), labelled(120, texts), names, rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)


def test_training_learns_and_repeats() -> None:
    train, validation, names, start = made_fold()
    kept = start.copy()
    trained = train_static(start, train, validation, names, TRAINING, "fold 3")
    assert trained.mrr[trained.best] > 0.9 > trained.mrr[0] + 0.2
    assert trained.losses[-1] < trained.losses[0]
    shares: list[float] = []
    again = train_static(start, train, validation, names, TRAINING, "fold 3", shares.append)
    assert sum(shares) == pytest.approx(len(again.losses) / TRAINING.epochs)
    assert len(shares) > len(again.losses)
    assert again.model.table.tobytes() == trained.model.table.tobytes()
    assert again.model.own.tobytes() == trained.model.own.tobytes()
    np.testing.assert_array_equal(start, kept)
    for changed in ({"seed": 1}, {"extra_labels": 0}):
        other = train_static(start, train, validation, names, replace(TRAINING, **changed), "fold 3")
        assert other.model.table.tobytes() != trained.model.table.tobytes()


def test_batches_suit_the_size_of_the_data() -> None:
    by_size = replace(TRAINING, train_batch=None, extra_labels=None)
    assert [by_size.texts_at_once(texts) for texts in (50, 20_000, 45_000)] == [128, 200, 256]
    assert [by_size.labels_drawn(labels) for labels in (999, 1_000, 4_000, 30_000)] == [0, 125, 500, 2_048]
    assert (TRAINING.texts_at_once(20_000), TRAINING.labels_drawn(3)) == (16, 3)
    train, validation, names, start = made_fold()
    as_one = train_static(start, train, validation, names, replace(by_size, train_batch=128), "fold 0")
    assert train_static(start, train, validation, names, by_size, "fold 0").losses == as_one.losses


def test_labels_without_texts_keep_their_name() -> None:
    train, validation, names, start = made_fold()
    cold = train.known.labels != 0
    text, _ = train.known.pairs()
    sizes = np.bincount(text[cold], minlength=len(train.known))
    known = LabelSets(np.concatenate(([0], np.cumsum(sizes))), train.known.labels[cold])
    model = train_static(start, Labelled(train.bags, known), validation, names, TRAINING, "fold 0").model
    assert not model.own[0].any()
    assert model.own[1:].any(axis=1).all()
    np.testing.assert_allclose(model.labels(names)[0], model.texts(names)[0], atol=1e-6)


def test_without_validation_texts_the_last_epoch_counts() -> None:
    train, _, names, start = made_fold()
    nothing = Labelled(
        Bags(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)),
        LabelSets(np.zeros(1, np.int64), np.empty(0, np.int64)),
    )
    assert train_static(start, train, nothing, names, TRAINING, "fold 0").best == TRAINING.epochs
    with pytest.raises(InputError, match="fold 0: there is no training text with a label"):
        train_static(start, nothing, nothing, names, TRAINING, "fold 0")


def test_a_single_validation_text_is_no_collapse() -> None:
    """Nor are two that are equal, as in small datasets."""
    train, validation, names, start = made_fold()
    one = validation.bags.offset[1]
    bags = Bags(np.array([0, one, 2 * one]), np.tile(validation.bags.token[:one], 2), np.ones(2 * one, np.float32))
    for number in (1, 2):
        some = Labelled(
            Bags(bags.offset[: number + 1], bags.token, bags.times), validation.known.take(np.zeros(number, int))
        )
        assert len(train_static(start, train, some, names, TRAINING, "fold 0").losses) > 0
    same = Labelled(Bags(bags.offset, bags.token, bags.times), train.known.take(np.arange(2)))
    with pytest.raises(CollapseError, match="fold 0: every text, or every label, has the same vector"):
        train_static(start, same, validation, names, TRAINING, "fold 0")


def test_thinned_texts_are_evenly_spread() -> None:
    bags = make_bags(np.random.default_rng(0), [3, 0, 1, 7, 2])
    matrix = as_matrix(bags)
    for most, rows in ((5, slice(None)), (9, slice(None)), (3, slice(0, None, 2)), (2, slice(0, None, 3))):
        np.testing.assert_array_equal(as_matrix(thinned(bags, most)), matrix[rows])


def test_the_rate_rises_and_falls() -> None:
    rates = [rising_and_falling(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 25)
    assert int(np.argmax(rates)) == 30
    assert max(rates) == 1
    assert rates[-1] < 0.001
    assert rising_and_falling(0, 1) > 0


def test_the_saved_model_is_one_of_sentence_transformers(tmp_path: Path) -> None:
    start = StaticStart("bundled:minilm", "", 12)
    vectors = first_vectors(start)
    assert vectors.shape == (30522, 384)
    table = vectors * np.linspace(0.1, 2, len(vectors), dtype=np.float32)[:, None]
    save_model(tmp_path, table, start)
    texts = ["An editor of texts, and of texts alone", "a " * 50 + "cut", "Grüße 漢字"]
    model = SentenceTransformer(str(tmp_path), device="cpu")
    ours = StaticModel(table, np.zeros((0, 384), np.float32)).texts(token_bags(open_tokenizer(start), texts, 12))
    np.testing.assert_allclose(model.encode(texts), ours, atol=1e-5)
    np.testing.assert_array_equal(read_vectors(tmp_path / "0_StaticEmbedding/model.safetensors"), table)
    assert model.similarity_fn_name == "cosine"


def test_models_that_cannot_be_a_start(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    start = StaticStart(str(tmp_path), "", 12)
    with pytest.raises(InputError, match=r"tokenizer\.json does not exist"):
        open_tokenizer(start)
    with pytest.raises(InputError, match=r"model\.safetensors does not exist"):
        first_vectors(start)
    assert find_model(str(tmp_path)) == tmp_path


def test_the_bias_is_in_the_product() -> None:
    rng = np.random.default_rng(0)
    texts, labels = (unit(rng.standard_normal((n, WIDTH))) for n in (3, 5))
    bias = frequency_bias(np.array([0, 1, 2, 10, 1000]), 0.02)
    assert bias[0] == 0
    assert bias[4] == pytest.approx(0.02 * np.log(1001))
    product = with_bias(texts, 1.0) @ with_bias(labels, bias).T
    np.testing.assert_allclose(product, texts @ labels.T + bias, atol=1e-6)


def test_the_best_epoch_is_kept(monkeypatch) -> None:
    train, validation, names, start = made_fold()
    figures = iter([0.1, 0.8, 0.805, 0.804, 0.7, 0.805, 0.9])
    monkeypatch.setattr(static, "mean_reciprocal_rank", lambda *_: next(figures))
    trained = train_static(start, train, validation, names, TRAINING, "fold 0")
    # The third epoch without a better one is the last.
    assert (trained.best, len(trained.mrr)) == (2, 6)


def test_words_of_the_same_texts_start_near_to_each_other() -> None:
    """Words 0 and 1 are always together, word 2 is in other texts, word 3 in none. A seed gives the same bytes."""
    token = np.tile([0, 1, 2, 4], 20).astype(np.int32)
    bags = Bags(np.arange(0, 81, 2), token, np.ones(80, np.float32))
    vectors = word_vectors(bags, 5, 256, 7)
    cosine = unit(vectors) @ unit(vectors).T
    assert cosine[0, 1] > 0.4
    assert cosine[0, 2] < 0.1
    assert np.isfinite(vectors).all() and vectors[3].any()
    assert vectors.tobytes() == word_vectors(bags, 5, 256, 7).tobytes()


def test_the_loss_of_texts_by_hand() -> None:
    """The loss in plain Python, its gradients by PyTorch. Text 0 has two labels; no text has label 2."""
    rng = np.random.default_rng(3)
    texts, labels = rng.standard_normal((3, WIDTH)), rng.standard_normal((5, WIDTH))
    pairs = np.array([0, 0, 1, 2]), np.array([0, 3, 1, 0])
    have = np.zeros((3, 5), bool)
    have[pairs] = True
    s = unit(texts).astype(float) @ unit(labels).astype(float).T / 0.5
    wanted = []
    for text, label in zip(*pairs, strict=True):
        others = [s[text, other] for other in range(5) if not have[text, other]]
        opposed = [s[other, label] for other in range(3) if not have[other, label]]
        wanted += [-s[text, label] + np.log(np.exp([s[text, label], *some]).sum()) for some in (others, opposed)]
    loss, by_text, by_label = static.nt_xent_of_texts(texts, labels, pairs, 0.5)
    assert loss == pytest.approx(np.mean(wanted), rel=1e-5)
    sides = [torch.from_numpy(side).requires_grad_() for side in (texts, labels)]
    e = (torch.nn.functional.normalize(sides[0]) @ torch.nn.functional.normalize(sides[1]).T / 0.5).exp()
    others = e.masked_fill(torch.from_numpy(have), 0)
    contrasts = [1 + others.sum(dim=1 - side)[of] / e[pairs] for side, of in enumerate(pairs)]
    (sum(map(torch.log, contrasts)).mean() / 2).backward()
    np.testing.assert_allclose(by_text, sides[0].grad, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_label, sides[1].grad, rtol=1e-4, atol=1e-6)


def test_the_loss_of_texts_with_one_label_each_is_nt_xent() -> None:
    rng = np.random.default_rng(4)
    texts, labels = rng.standard_normal((4, WIDTH)), rng.standard_normal((4, WIDTH))
    pair = np.arange(4)
    same = static.nt_xent_of_texts(texts, labels, (pair, pair), 0.5)
    plain = nt_xent(torch.from_numpy(texts), torch.from_numpy(labels), torch.from_numpy(~np.eye(4, dtype=bool)), 0.5)
    assert same.loss == pytest.approx(float(plain), rel=1e-6)


def test_the_loss_of_opposite_vectors_is_finite() -> None:
    """At the lowest temperature in use, pairs as far apart as can be among labels as near as can be."""
    texts = np.tile(np.eye(1, WIDTH), (64, 1))
    labels = np.tile(texts[0], (3000, 1))
    labels[:64] *= -1
    contrasted = static.nt_xent_of_texts(texts, labels, (np.arange(64), np.arange(64)), 0.07)
    assert contrasted.loss == pytest.approx((2 / 0.07 + np.log(2936) + np.log(64)) / 2, rel=1e-3)
    assert np.isfinite(contrasted.by_text).all() and np.isfinite(contrasted.by_label).all()


def test_lists_of_groups_become_lists_by_text() -> None:
    head = Ranked(np.array([0, 2, 2, 3]), np.array([1, 2, 3], np.int32), np.array([0.9, 0.8, 0.7], np.float32))
    tail = Ranked(np.array([0, 0, 1, 2]), np.array([7, 8], np.int32), np.array([0.5, 0.4], np.float32))
    ranked = interleaved([head, tail])
    assert ranked.offset.tolist() == [0, 2, 2, 2, 3, 4, 5]
    assert ranked.item.tolist() == [1, 2, 7, 3, 8]
    assert ranked.score.tolist() == np.array([0.9, 0.8, 0.5, 0.7, 0.4], np.float32).tolist()


def test_unit_keeps_empty_texts_at_zero() -> None:
    model = StaticModel(unit(np.ones((TOKENS, WIDTH))), np.zeros((1, WIDTH), np.float32))
    empty = Bags(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    assert not model.texts(empty).any()
    assert not model.labels(empty).any()
