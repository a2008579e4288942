"""Dawid and Skene's model and MACE: published figures, and what must hold of any labels."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from annotation.domain.quality import aggregation
from annotation.domain.quality.aggregation import DawidSkene, Mace, Method, dawid_skene, mace

# A. P. Dawid, A. M. Skene (1979), Table 1: 45 patients, each seen by five anaesthetists, by the first of them three
# times. A word for each patient: the first's three classes, then the others'.
ANAESTHETISTS = """
    1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 1111111 2223212
    1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111
    1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111 1111111 1212111
    2322222 1211111 2222222
"""
OBSERVER = (0, 0, 0, 1, 2, 3, 4)

# The example of the authors' MACE package: five words tagged by five annotators, of whom some skipped some.
TAGGED = ("NOUN,,,NOUN,PRON", "VERB,VERB,,VERB,", "ADJ,,ADJ,,ADV", ",VERB,,VERB,ADV", "NOUN,,,NOUN,PRON")
TAGS = ("NOUN", "PRON", "VERB", "ADJ", "ADV")


def columns(rows: list[tuple[int, int, int]]) -> dict[str, list[int]]:
    task, worker, label = (list(column) for column in zip(*rows, strict=True))
    return {"task": task, "worker": worker, "label": label}


def anaesthetists() -> dict[str, list[int]]:
    return columns(
        [
            (patient, worker, int(labels) - 1)
            for patient, word in enumerate(ANAESTHETISTS.split())
            for worker, labels in zip(OBSERVER, word, strict=True)
        ]
    )


def tagged() -> dict[str, list[int]]:
    return columns(
        [
            (word, worker, TAGS.index(tag))
            for word, line in enumerate(TAGGED)
            for worker, tag in enumerate(line.split(","))
            if tag
        ]
    )


def simulated(
    seed: int, *, tasks: int, errors: list[float], classes: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Truth (T,), labels (T, W): worker w errs with probability errors[w], to any other class."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, tasks)
    wrong = random.random((tasks, len(errors))) < np.array(errors)
    step = random.integers(1, classes, (tasks, len(errors)))
    return truth, (truth[:, None] + wrong * step) % classes


def of(labels: np.ndarray) -> dict[str, np.ndarray]:
    tasks, workers = labels.shape
    return {
        "task": np.repeat(np.arange(tasks), workers),
        "worker": np.tile(np.arange(workers), tasks),
        "label": labels.ravel(),
    }


# Published figures


def test_the_anaesthetists_are_as_dawid_and_skene_published():
    result = dawid_skene(**anaesthetists(), classes=4)
    assert result.converged
    assert result.marginals.round(4).tolist() == [0.3996, 0.4220, 0.1118, 0.0667]


def by_the_papers_equations(rows: dict[str, list[int]], *, classes: int, rounds: int) -> list[list[float]]:
    """The posteriors by the equations 2.3 to 2.5 of the paper, number by number."""
    patients, observers = max(rows["task"]) + 1, max(rows["worker"]) + 1
    counts = [[[0] * classes for _ in range(observers)] for _ in range(patients)]
    for task, worker, label in zip(*rows.values(), strict=True):
        counts[task][worker][label] += 1
    each = range(classes)
    posteriors = [[sum(seen[label] for seen in count) / 7 for label in each] for count in counts]
    for _ in range(rounds):
        shares = [sum(posterior[true] for posterior in posteriors) / patients for true in each]
        errors = [
            [
                [
                    sum(p[true] * n[worker_number][label] for p, n in zip(posteriors, counts, strict=True))
                    for label in each
                ]
                for true in each
            ]
            for worker_number in range(observers)
        ]
        for worker_number in range(observers):
            for true in each:
                total = sum(errors[worker_number][true])
                errors[worker_number][true] = [error / total for error in errors[worker_number][true]]
        for patient, seen in enumerate(counts):
            joint = [
                shares[true]
                * prod(
                    errors[worker_number][true][label] ** seen[worker_number][label]
                    for worker_number in range(observers)
                    for label in each
                )
                for true in each
            ]
            posteriors[patient] = [weight / sum(joint) for weight in joint]
    return posteriors


def test_posteriors_are_those_of_the_papers_equations():
    rows = anaesthetists()
    posteriors = dawid_skene(**rows, classes=4, iterations=40, tolerance=0).posteriors
    expected = by_the_papers_equations(rows, classes=4, rounds=40)
    for actual, reference in zip(posteriors, expected, strict=True):
        assert actual == pytest.approx(reference, abs=1e-12)
    # All but three patients are settled beyond doubt.
    assert {patient + 1 for patient in np.flatnonzero(posteriors.max(axis=1) < 0.99)} == {7, 35, 38}


def test_the_tagged_words_are_as_the_authors_of_mace_published():
    # The README of their package, section 3: competence, and the distribution of each line.
    result = mace(**tagged(), classes=5)
    assert result.trust == pytest.approx(
        [0.8820970950608722, 0.7904155783217401, 0.6598575839917008, 0.8822161621354134, 0.03114062354821738],
        abs=1e-9,
    )
    assert result.posteriors[0] == pytest.approx(
        [0.9997443833265887, 7.140381903855615e-5, *[6.140428479093134e-5] * 3], abs=1e-9
    )
    assert result.posteriors[2][3] == pytest.approx(0.9990184050335877, abs=1e-9)
    assert result.posteriors[3][2] == pytest.approx(0.9994950838119411, abs=1e-9)
    # The entropy of the second line, from the same place.
    second = result.posteriors[1]
    assert -(second * np.log(second)).sum() == pytest.approx(5.657170773284981e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("method", "trust", "twelfth"),
    [
        (
            "variational",
            [0.8247109, 0.61710165, 0.73687746, 0.81029982, 0.75244638],
            [0.00022494, 0.73666063],
        ),
        ("em", [0.7849152, 0.66458372, 0.71230963, 0.84508967, 0.72274067], [0.00111313, 0.44045421]),
    ],
)
def test_mace_is_as_crowd_kit_has_it(method: Method, trust: list[float], twelfth: list[float]):
    # crowd-kit 1.4.2 on the anaesthetists' labels, sorted by label (it mixes up the classes if they are not), 3,000
    # iterations.
    result = mace(**anaesthetists(), classes=4, method=method, tolerance=1e-15)
    assert result.trust == pytest.approx(trust, abs=1e-6)
    assert result.posteriors[11][:2] == pytest.approx(twelfth, abs=1e-6)


# What must hold of any labels, after whatever number of iterations

SHORT: dict[str, Any] = {"iterations": 20, "tolerance": 0}

LABELS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 2)), min_size=4, max_size=40
).filter(lambda rows: len({worker for _, worker, _ in rows}) > 1)


@settings(max_examples=25, deadline=None)
@given(rows=LABELS, seed=st.integers(0, 9))
def test_neither_the_order_of_labels_nor_the_numbers_of_workers_and_tasks_matter(
    rows: list[tuple[int, int, int]], seed: int
):
    random = np.random.default_rng(seed)
    renamed, moved = random.permutation(4), random.permutation(8)
    other = [(int(moved[task]), int(renamed[worker]) + 7, label) for task, worker, label in rows]
    random.shuffle(other)
    before, after = (dawid_skene(**columns(triples), classes=3, **SHORT) for triples in (rows, other))
    place = [after.tasks.tolist().index(moved[task]) for task in before.tasks]
    assert after.posteriors[place] == pytest.approx(before.posteriors, abs=1e-6)
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-6)
    trusted, trusted_after = (mace(**columns(triples), classes=3, **SHORT) for triples in (rows, other))
    positions = [trusted_after.workers.tolist().index(renamed[worker] + 7) for worker in trusted.workers]
    assert trusted_after.trust[positions] == pytest.approx(trusted.trust, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(rows=LABELS, order=st.permutations([0, 1, 2]))
def test_other_names_of_classes_give_the_same_under_other_names(
    rows: list[tuple[int, int, int]], order: list[int]
):
    other = [(task, worker, order[label]) for task, worker, label in rows]
    before, after = (dawid_skene(**columns(triples), classes=3, **SHORT) for triples in (rows, other))
    assert after.posteriors[:, order] == pytest.approx(before.posteriors, abs=1e-6)
    assert after.marginals[order] == pytest.approx(before.marginals, abs=1e-6)
    trusted, trusted_after = (mace(**columns(triples), classes=3, **SHORT) for triples in (rows, other))
    assert trusted_after.posteriors[:, order] == pytest.approx(trusted.posteriors, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(rows=LABELS)
def test_no_iteration_makes_the_labels_less_likely(rows: list[tuple[int, int, int]]):
    votes = aggregation._count_votes(**columns(rows), classes=3)
    start = aggregation._shares_of_votes(votes)
    steps = aggregation._iterate_steps(
        votes,
        lambda posteriors: aggregation._estimate_confusions(votes, posteriors, np.zeros((3, 3))),
        start,
        30,
    )
    climbed = [step.log_likelihood for step in steps]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(climbed))


@settings(max_examples=25, deadline=None)
@given(rows=LABELS)
def test_posteriors_and_errors_are_probabilities(rows: list[tuple[int, int, int]]):
    result = dawid_skene(**columns(rows), classes=3, **SHORT)
    assert result.posteriors.sum(axis=1) == pytest.approx(np.ones(len(result.tasks)))
    sums = result.confusion.sum(axis=2)
    assert sums[~np.isnan(sums)] == pytest.approx(np.ones(int((~np.isnan(sums)).sum())))
    trusted = mace(**columns(rows), classes=3, **SHORT)
    assert trusted.spamming.sum(axis=1) == pytest.approx(np.ones(len(trusted.workers)))
    assert ((trusted.trust >= 0) & (trusted.trust <= 1)).all()


def test_tasks_with_the_same_labels_have_the_same_posterior():
    _, labels = simulated(3, tasks=300, errors=[0.2, 0.3, 0.3])
    result = dawid_skene(**of(labels), classes=3)
    by_pattern: dict[tuple[int, ...], np.ndarray] = {}
    for pattern, posterior in zip(map(tuple, labels.tolist()), result.posteriors, strict=True):
        assert by_pattern.setdefault(pattern, posterior) == pytest.approx(posterior)


# That they do what they are for


@pytest.mark.parametrize("model", [dawid_skene, mace])
def test_one_perfect_worker_is_believed_against_four_bad_ones(model: object):
    truth, labels = simulated(1, tasks=400, errors=[0.0, 0.45, 0.45, 0.45, 0.45])
    result = model(**of(labels), classes=3)  # type: ignore[operator]
    assert isinstance(result, DawidSkene | Mace)
    assert (result.posteriors.argmax(axis=1) == truth).mean() > 0.99
    if isinstance(result, Mace):
        assert result.trust.argmax() == 0
        assert result.trust[0] > 0.95
    else:
        assert np.diagonal(result.confusion[0]).min() > 0.95


def test_errors_are_found_to_be_what_they_were_made():
    # Five workers of whom the third errs in 30% of tasks: 10,000 tasks leave a standard error of 0.008 a row.
    _, labels = simulated(5, tasks=10_000, errors=[0.1, 0.2, 0.3, 0.2, 0.15])
    result = dawid_skene(**of(labels), classes=3)
    assert np.diagonal(result.confusion[2]) == pytest.approx([0.7, 0.7, 0.7], abs=0.03)
    assert result.confusion[2][0][1:] == pytest.approx([0.15, 0.15], abs=0.03)


def test_who_answers_at_random_is_not_trusted():
    _, labels = simulated(2, tasks=600, errors=[0.1, 2 / 3, 0.1])
    assert mace(**of(labels), classes=3).trust[1] < 0.1


def test_missing_labels_are_missing_and_no_class():
    _, labels = simulated(4, tasks=500, errors=[0.1, 0.2, 0.2])
    rows = of(labels)
    mask = np.random.default_rng(0).random(1500) < 0.6
    result = dawid_skene(**{name: column[mask] for name, column in rows.items()}, classes=3)
    assert len(result.tasks) == len(set(rows["task"][mask].tolist()))
    assert np.diagonal(result.confusion[0]).min() > 0.8


# What is refused, and what is not


def test_no_labels_are_refused():
    with pytest.raises(AssayError, match="no labels"):
        dawid_skene(task=[], worker=[], label=[], classes=3)


def test_a_scale_of_one_level_is_refused():
    with pytest.raises(AssayError, match="one level"):
        dawid_skene(task=[1, 1], worker=[1, 2], label=[0, 0], classes=1)


def test_one_workers_labels_are_refused():
    with pytest.raises(AssayError, match="one person's"):
        mace(task=[1, 2], worker=[7, 7], label=[0, 1], classes=2)


def test_a_class_off_the_scale_is_refused_and_named():
    with pytest.raises(AssayError, match="class 3 is not one of the 3"):
        dawid_skene(task=[1, 1], worker=[1, 2], label=[0, 3], classes=3)


def test_all_labels_of_one_class_are_certain_and_other_classes_unknown():
    result = dawid_skene(task=[1, 1, 2, 2], worker=[1, 2, 1, 2], label=[1, 1, 1, 1], classes=3)
    assert result.posteriors.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert result.confusion[0][1].tolist() == [0, 1, 0]
    assert np.isnan(result.confusion[0][[0, 2]]).all()


def test_mace_looks_on_where_the_likeliest_solution_trusts_nobody():
    # Three people who agree on a third of the items on a scale of five, as experts do on a hard criterion: from even
    # trust alone the likeliest solution is that everybody guesses.
    random = np.random.default_rng(3)
    truth = random.integers(0, 3, 50)
    label = np.clip(truth + random.integers(-1, 2, (3, 50)), 0, 4)
    result = mace(
        task=np.tile(np.arange(50), 3), worker=np.repeat([1, 2, 3], 50), label=label.ravel(), classes=5
    )
    assert result.trust.max() > 0.3
    assert not result.trusts_nobody
    assert result.converged
    assert result.posteriors.max(axis=1).mean() > 0.5


def test_mace_says_where_nobody_can_be_trusted():
    # Two people who mostly give the lowest level, and agree as often as that makes them: guessing explains it all.
    first, second = np.arange(50) % 5 == 4, np.arange(50) // 5 % 5 == 4
    label = np.concatenate([np.where(first, 1, 0), np.where(second, 2, 0)])
    task = np.tile(np.arange(50), 2)
    result = mace(task=task, worker=np.repeat([1, 2], 50), label=label, classes=5, method="em")
    assert result.trusts_nobody
    assert not result.converged
    assert result.posteriors.max() < 0.25


def test_posteriors_stand_still_when_it_has_converged():
    # The likelihood of these settles long before the posteriors do.
    loose = dawid_skene(**anaesthetists(), classes=4, tolerance=1e-3, posterior_tolerance=1.0)
    tight = dawid_skene(**anaesthetists(), classes=4, tolerance=1e-3)
    further = dawid_skene(**anaesthetists(), classes=4, tolerance=0, iterations=tight.iterations + 1)
    assert loose.converged
    assert tight.converged
    assert loose.iterations < tight.iterations
    assert np.abs(further.posteriors - tight.posteriors).max() < 1e-6


def test_it_says_when_it_has_not_converged():
    assert not dawid_skene(**anaesthetists(), classes=4, iterations=2).converged
