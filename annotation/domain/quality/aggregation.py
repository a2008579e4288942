"""What the labels of several people say together: Dawid and Skene's model, and MACE. Pure.

Both estimate the true class of every task and the reliability of every worker at once, by expectation-maximization
(EM). Labels may be missing, and a worker may have labelled a task several times. The formulas, their sources and what
is refused stand in ``docs/quality.md``.

Shapes: N labels, T tasks, W workers, K classes; U distinct patterns. Tasks whose labels are the same (from the same
workers) are counted, not listed: they have one posterior, so an iteration costs as much as there are patterns. Inside,
posteriors are (K, U), because a few long rows are added up faster than many short ones.

``estimate_truths`` applies Dawid and Skene's model to each scale of a table of labels. An adjudicator's decision is one
more label on the unit, of one more worker. Decisions exist only where labels differ; that does no harm, because which
ones are missing depends on labels that the model sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from annotation.core.errors import N_, AssayError
from annotation.domain.quality.labels import Bools, LabelTable
from annotation.domain.quality.labels import Floats as LabelsFloats
from annotation.domain.quality.labels import Ints as LabelsInts

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Method: TypeAlias = Literal["variational", "em"]

NO_LABELS = N_("There are no labels to combine.")
ONE_CLASS = N_("The scale has one level, so there is nothing to decide between.")
ONE_WORKER = N_("All labels are one person's: error and truth cannot be separated.")
OFF_SCALE = N_("The class {label} is not one of the {classes} classes, which are counted from 0.")

ITERATIONS = 2000
TOLERANCE = 1e-9
"""Of the log-likelihood of a label, by iteration."""
POSTERIOR_TOLERANCE = 1e-6
"""Of any probability of a class of a task, by iteration: the likelihood is flat long before the posteriors stand."""
# The authors of MACE smooth by a hundredth of a label, spread over the classes, and weigh a strategy's prior by ten.
MACE_SMOOTHING = 0.01
MACE_TRUST_PRIOR = 0.5
MACE_STRATEGY_PRIOR = 10.0
MACE_EVEN_STARTS = (0.9, 0.5, 0.1)
MACE_RANDOM_STARTS = 30
MACE_FIRST_ITERATIONS = 60
"""After so many iterations from every start, the best are taken further."""
MACE_FINALISTS = 5
MIN_TRUST = 0.05
"""A solution in which nobody is trusted more than this says nothing of any task: all posteriors are near even."""


@dataclass(frozen=True)
class DawidSkene:
    """``tasks`` (T,) and ``workers`` (W,) are the numbers given, ascending; the other arrays follow their order.

    posteriors (T, K): the probability of each class. marginals (K,): the share of each class.
    confusion (W, K, K): of a worker, a true class, a label: its probability; nan where nothing a worker labelled can
    be of that class. log_likelihood is natural, of the labels given the parameters.
    """

    tasks: Ints
    workers: Ints
    posteriors: Floats
    marginals: Floats
    confusion: Floats
    iterations: int
    log_likelihood: float
    converged: bool


@dataclass(frozen=True)
class Mace:
    """As ``DawidSkene``, but of a worker: trust (W,), the probability that a label is the true class and not a guess;
    spamming (W, K), the share of each class among the guesses.

    trusts_nobody: whether no start led to a solution in which anybody is trusted. The posteriors are then near even
    and say nothing; ``converged`` is False.
    """

    tasks: Ints
    workers: Ints
    posteriors: Floats
    trust: Floats
    spamming: Floats
    iterations: int
    log_likelihood: float
    converged: bool
    trusts_nobody: bool


def dawid_skene(
    *,
    task: npt.ArrayLike,
    worker: npt.ArrayLike,
    label: npt.ArrayLike,
    classes: int,
    prior: npt.ArrayLike = 0.0,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
    posterior_tolerance: float = POSTERIOR_TOLERANCE,
) -> DawidSkene:
    """Maximum likelihood by EM (A. P. Dawid, A. M. Skene, Applied Statistics 28, 1979), begun at the shares of votes.

    task, worker, label (N,): whole numbers, labels from 0 to classes - 1. ``prior``: pseudo-counts added to each
    worker's table of true class and label, a number or (K, K); 0 is maximum likelihood. It has converged when an
    iteration adds less than ``tolerance`` to the log-likelihood of a label and changes no posterior by
    ``posterior_tolerance`` or more. Raises ``AssayError``.
    """
    votes = _count_votes(task, worker, label, classes)
    smoothing = np.broadcast_to(np.asarray(prior, dtype=np.float64), (classes, classes))

    def maximize(posteriors: Floats) -> _Confusions:
        return _estimate_confusions(votes, posteriors, smoothing)

    last = _maximize_likelihood(
        votes, maximize, _shares_of_votes(votes), iterations, (tolerance, posterior_tolerance)
    )
    return DawidSkene(
        tasks=votes.tasks,
        workers=votes.workers,
        posteriors=last.posteriors.T[votes.pattern],
        marginals=last.model.marginals,
        confusion=last.model.confusion(),
        iterations=last.iterations,
        log_likelihood=last.log_likelihood,
        converged=last.converged,
    )


def mace(
    *,
    task: npt.ArrayLike,
    worker: npt.ArrayLike,
    label: npt.ArrayLike,
    classes: int,
    method: Method = "variational",
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Mace:
    """Whom to trust (D. Hovy, T. Berg-Kirkpatrick, A. Vaswani, E. Hovy, NAACL-HLT 2013).

    ``variational`` is their variational Bayes with the priors Beta(0.5, 0.5) on trust and Dirichlet(10) on guesses;
    ``em`` smooths the counts by 0.01 / K. They keep the likeliest of ten random starts. Here there are three degrees of
    trust, the same for everybody, and thirty random ones, drawn by how many labels people have and how often these
    equal others': the same labels give the same answer, whatever they are called. A solution in which nobody is trusted
    is rejected, however likely, where there is another. Arguments and refusals as in ``dawid_skene``.
    """
    votes = _count_votes(task, worker, label, classes)
    best = _find_best_run(votes, method, iterations, tolerance)
    trusts_nobody = _trusts_nobody(best)
    return Mace(
        tasks=votes.tasks,
        workers=votes.workers,
        posteriors=best.posteriors.T[votes.pattern],
        trust=best.model.knowing[:, 1],
        spamming=_proportions(best.model.guesses),
        iterations=best.iterations,
        log_likelihood=best.log_likelihood,
        converged=best.converged and not trusts_nobody,
        trusts_nobody=trusts_nobody,
    )


# The labels, counted


@dataclass(frozen=True)
class _Votes:
    """The labels of one task of each pattern, in the patterns' order: M rows.

    pattern (T,): which pattern each task has. weights (U,): the tasks of each. row_pattern, worker, label (M,): worker
    as a position in ``workers``.
    """

    tasks: Ints
    workers: Ints
    classes: int
    pattern: Ints
    weights: Floats
    row_pattern: Ints
    worker: Ints
    label: Ints

    @cached_property
    def row_weights(self) -> Floats:
        weights: Floats = self.weights[self.row_pattern]
        return weights

    @cached_property
    def cells(self) -> Ints:
        """(M,): the worker and the label as one number, worker * K + label."""
        cells: Ints = self.worker * self.classes + self.label
        return cells

    @cached_property
    def labels(self) -> float:
        """How many labels there are in all."""
        return float(self.row_weights.sum())

    def by_pattern(self, rows: Floats) -> Floats:
        """(K, U): the rows (K, M) added up."""
        return _sum_by_place(self.row_pattern, rows, len(self.weights))

    def by_cell(self, rows: Floats) -> Floats:
        """(rows, W, labels): rows (any number, M) added up."""
        size = len(self.workers) * self.classes
        return _sum_by_place(self.cells, rows, size).reshape(-1, len(self.workers), self.classes)


def _count_votes(task: npt.ArrayLike, worker: npt.ArrayLike, label: npt.ArrayLike, classes: int) -> _Votes:
    tasks, workers, labels = (np.asarray(column, dtype=np.int64).ravel() for column in (task, worker, label))
    _check_labels(workers, labels, classes)
    task_ids, row_task = np.unique(tasks, return_inverse=True)
    worker_ids, row_worker = np.unique(workers, return_inverse=True)
    order = np.argsort(row_task, kind="stable")
    row_task, row_worker, labels = row_task[order], row_worker[order], labels[order]
    starts = np.searchsorted(row_task, np.arange(len(task_ids)))
    _, first, pattern, counts = np.unique(
        _signatures(row_worker * classes + labels, starts),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    sizes = np.diff(starts, append=len(row_task))[first]
    begins = np.cumsum(sizes) - sizes
    row_pattern = np.repeat(np.arange(len(first)), sizes)
    rows = np.arange(sizes.sum()) - begins[row_pattern] + starts[first][row_pattern]
    return _Votes(
        tasks=task_ids,
        workers=worker_ids,
        classes=classes,
        pattern=pattern,
        weights=counts.astype(np.float64),
        row_pattern=row_pattern,
        worker=row_worker[rows],
        label=labels[rows],
    )


def _check_labels(workers: Ints, labels: Ints, classes: int) -> None:
    if labels.size == 0:
        raise AssayError(NO_LABELS)
    if classes < 2:
        raise AssayError(ONE_CLASS)
    if labels.min() < 0 or labels.max() >= classes:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise AssayError(OFF_SCALE, label=int(wrong), classes=classes)
    if (workers == workers[0]).all():
        raise AssayError(ONE_WORKER)


def _signatures(codes: Ints, starts: Ints) -> npt.NDArray[np.uint64]:
    """(T,): one number for the set of each task's codes, whatever their order: the sum of 64 random bits for each
    code (Zobrist's hashing). Two different sets among a million have the same with a chance of 3 in 10^8.
    """
    bits = np.random.default_rng(0).integers(0, 2**64, size=int(codes.max()) + 1, dtype=np.uint64)
    signatures: npt.NDArray[np.uint64] = np.add.reduceat(bits[codes], starts)
    return signatures


def _shares_of_votes(votes: _Votes) -> Floats:
    """(K, U): of a pattern's labels, the share of each class."""
    counts = votes.by_pattern((votes.label == np.arange(votes.classes)[:, None]).astype(np.float64))
    shares: Floats = counts / counts.sum(axis=0)
    return shares


def _sum_by_place(place: Ints, rows: Floats, size: int) -> Floats:
    """(rows, size): each row (M,) added up by place."""
    sums: Floats = np.stack([np.bincount(place, weights=row, minlength=size) for row in rows])
    return sums.astype(np.float64)


# EM, for any model that tells how likely a label is under each true class

_Model = TypeVar("_Model", bound="_Confusions | _Guessers")


@dataclass(frozen=True)
class _Run(Generic[_Model]):
    model: _Model
    posteriors: Floats
    log_likelihood: float
    iterations: int
    converged: bool


def _maximize_likelihood(
    votes: _Votes,
    maximize: Callable[[Floats], _Model],
    posteriors: Floats,
    iterations: int,
    tolerances: tuple[float, float],
) -> _Run[_Model]:
    """tolerances: of the log-likelihood of a label, and of any posterior."""
    before = -np.inf
    for run in _iterate_steps(votes, maximize, posteriors, iterations):
        is_flat = abs(run.log_likelihood - before) < tolerances[0] * votes.labels
        if is_flat and np.abs(run.posteriors - posteriors).max() < tolerances[1]:
            return replace(run, converged=True)
        before, posteriors = run.log_likelihood, run.posteriors
    return run


def _iterate_steps(
    votes: _Votes, maximize: Callable[[Floats], _Model], posteriors: Floats, iterations: int
) -> Iterator[_Run[_Model]]:
    for step in range(1, max(iterations, 1) + 1):
        model = maximize(posteriors)
        posteriors, log_likelihood = _expect(votes, model)
        yield _Run(model, posteriors, log_likelihood, step, converged=False)


def _expect(votes: _Votes, model: _Confusions | _Guessers) -> tuple[Floats, float]:
    """(K, U) posteriors, and the log-likelihood."""
    with np.errstate(divide="ignore"):
        joint = votes.by_pattern(model.log_likelihoods(votes)) + np.log(model.marginals)[:, None]
    top = joint.max(axis=0)
    scaled = np.exp(joint - top)
    total = scaled.sum(axis=0)
    log_likelihood = float((votes.weights * (np.log(total) + top)).sum())
    return scaled / total, log_likelihood


@dataclass(frozen=True)
class _Confusions:
    """table (K classes, W, K labels): how probable a label is; seen (K, W): the labels expected of a class."""

    marginals: Floats
    table: Floats
    seen: Floats

    def log_likelihoods(self, votes: _Votes) -> Floats:
        """(K, M)."""
        rows: Floats = np.log(self.table).reshape(votes.classes, -1)[:, votes.cells]
        return rows

    def confusion(self) -> Floats:
        known = np.where(self.seen[:, :, None] > 0, self.table, np.nan)
        return np.ascontiguousarray(known.transpose(1, 0, 2))


def _estimate_confusions(votes: _Votes, posteriors: Floats, prior: Floats) -> _Confusions:
    """The M-step. A class that a worker never met gets even chances, which change nothing."""
    weighted = posteriors * votes.weights
    table = votes.by_cell(weighted[:, votes.row_pattern]) + prior[:, None, :]
    seen = table.sum(axis=2)
    even = np.full_like(table, 1 / votes.classes)
    np.divide(table, seen[:, :, None], out=even, where=seen[:, :, None] > 0)
    return _Confusions(weighted.sum(axis=1) / votes.weights.sum(), even, seen)


# MACE


@dataclass(frozen=True)
class _Guessers:
    """knowing (W, 2): the weights of guessing and of knowing. guesses (W, K). All classes are alike probable."""

    knowing: Floats
    guesses: Floats

    @property
    def marginals(self) -> Floats:
        size = self.guesses.shape[1]
        return np.full(size, 1 / size)

    def guessed(self, votes: _Votes) -> Floats:
        """(M,): the weight of having guessed this label."""
        weights: Floats = (self.knowing[:, :1] * self.guesses).ravel()[votes.cells]
        return weights

    def log_likelihoods(self, votes: _Votes) -> Floats:
        """(K, M): a guess, or, under the class that it names, knowledge too."""
        guessed = self.guessed(votes)
        named = votes.label == np.arange(votes.classes)[:, None]
        knew = np.log(guessed + self.knowing[votes.worker, 1])
        return np.where(named, knew, np.log(guessed))


@dataclass
class _Guessing:
    """The M-step of MACE, which needs the parameters before it to part knowledge from lucky guesses."""

    votes: _Votes
    method: Method
    model: _Guessers

    def __call__(self, posteriors: Floats) -> _Guessers:
        votes, model = self.votes, self.model
        guessed, known = model.guessed(votes), model.knowing[votes.worker, 1]
        right = posteriors[votes.label, votes.row_pattern]
        knew = votes.row_weights * right * known / (guessed + known)
        guesses = votes.row_weights - knew
        knowing = _sum_by_place(votes.worker, np.stack([guesses, knew]), len(votes.workers)).T
        self.model = self._normalize(knowing, votes.by_cell(guesses[None, :])[0])
        return self.model

    def _normalize(self, knowing: Floats, strategy: Floats) -> _Guessers:
        if self.method == "em":
            smoothing = MACE_SMOOTHING / self.votes.classes
            return _Guessers(_proportions(knowing + smoothing), _proportions(strategy + smoothing))
        return _Guessers(
            _expected_weights(knowing + MACE_TRUST_PRIOR), _expected_weights(strategy + MACE_STRATEGY_PRIOR)
        )


def _proportions(counts: Floats) -> Floats:
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _expected_weights(counts: Floats) -> Floats:
    """exp(E[log p]) of Dirichlet distributions with these counts: weights, which add up to less than 1."""
    weights: Floats = np.exp(digamma(counts) - digamma(counts.sum(axis=1, keepdims=True)))
    return weights


def _find_best_run(votes: _Votes, method: Method, iterations: int, tolerance: float) -> _Run[_Guessers]:
    """The likeliest solution in which anybody is trusted, else the likeliest. All starts are followed a short way, and
    then the best, those that trust anybody first, until enough of them have ended in trust.
    """

    def follow(run: _Run[_Guessers], most: int) -> _Run[_Guessers]:
        maximize = _Guessing(votes, method, run.model)
        after = _maximize_likelihood(votes, maximize, run.posteriors, most, (tolerance, POSTERIOR_TOLERANCE))
        return replace(after, iterations=run.iterations + after.iterations)

    first = min(iterations, MACE_FIRST_ITERATIONS)
    begun = [follow(_begin_with(trust, votes), first) for trust in _list_starts(votes)]
    ended: list[_Run[_Guessers]] = []
    for run in sorted(begun, key=_rank_run, reverse=True):
        is_open = not run.converged and iterations > first
        ended.append(follow(run, iterations - first) if is_open else run)
        if sum(not _trusts_nobody(other) for other in ended) >= MACE_FINALISTS:
            break
    return max(ended, key=_rank_run)


def _rank_run(run: _Run[_Guessers]) -> tuple[bool, float]:
    return not _trusts_nobody(run), round(run.log_likelihood, 6)


def _trusts_nobody(run: _Run[_Guessers]) -> bool:
    return bool(run.model.knowing[:, 1].max() < MIN_TRUST)


def _list_starts(votes: _Votes) -> Iterator[Floats]:
    """(W,) each: how far everybody is trusted in the beginning."""
    for trust in MACE_EVEN_STARTS:
        yield np.full(len(votes.workers), trust)
    counts = votes.by_pattern((votes.label == np.arange(votes.classes)[:, None]).astype(np.float64))
    equal = counts[votes.label, votes.row_pattern] - 1
    partners = counts.sum(axis=0)[votes.row_pattern] - 1
    records = _sum_by_place(
        votes.worker, votes.row_weights * np.stack([np.ones(len(equal)), equal, partners]), len(votes.workers)
    )
    different, record = np.unique(records.T, axis=0, return_inverse=True)
    for seed in range(MACE_RANDOM_STARTS):
        yield np.random.default_rng(seed).random(len(different))[record.ravel()]


def _begin_with(trust: Floats, votes: _Votes) -> _Run[_Guessers]:
    even = np.full((len(votes.workers), votes.classes), 1 / votes.classes)
    model = _Guessers(np.stack([1 - trust, trust], axis=1), even)
    posteriors, log_likelihood = _expect(votes, model)
    return _Run(model, posteriors, log_likelihood, 0, converged=False)


TRUTH_ITERATIONS = 60
PRECISION = 3e-5
# Labels that every person is taken to have given beforehand on each true level: so many right, so many of any kind.
RIGHT, ANY = 2.0, 1.0


@dataclass(frozen=True)
class Truth:
    """used (N,): the labels on the scale that the model saw. posteriors (N, K): of each one's unit, the probability of
    each level, 0 for labels not used. marginals (K,). prior (K, K): the labels taken for given.
    """

    used: Bools
    posteriors: LabelsFloats
    marginals: LabelsFloats
    prior: LabelsFloats


Truths: TypeAlias = tuple[Truth | None, ...]


def estimate_truths(table: LabelTable) -> Truths:
    """By scale; None where nothing tells: one level, or one person's labels."""
    return tuple(estimate_truth(table, scale) for scale in range(len(table.scales)))


def estimate_truth(table: LabelTable, scale: int, *, leaving: Bools | None = None) -> Truth | None:
    """``leaving`` (N,): labels that the model is not to see."""
    levels = len(table.scales[scale].values)
    prior = np.full((levels, levels), ANY / levels) + RIGHT * np.eye(levels)
    used = table.scale == scale
    if leaving is not None:
        used &= ~leaving
    rows = np.flatnonzero(used)
    if levels < 2 or not len(rows) or (table.person[rows] == table.person[rows[0]]).all():
        return None
    units, first = np.unique(table.unit[rows], return_index=True)
    decided = rows[first][table.decided[rows[first]] >= 0]
    fit = dawid_skene(
        task=np.concatenate([table.unit[rows], table.unit[decided]]),
        worker=np.concatenate([table.person[rows], np.full(len(decided), table.people)]),
        label=np.concatenate([table.level[rows], table.decided[decided]]),
        classes=levels,
        prior=prior,
        iterations=TRUTH_ITERATIONS,
        tolerance=PRECISION,
        posterior_tolerance=1.0,
    )
    posteriors = np.zeros((len(used), levels))
    posteriors[rows] = fit.posteriors[np.searchsorted(units, table.unit[rows])]
    return Truth(used, posteriors, fit.marginals, prior)


def count_by_truth(
    owner: LabelsInts, level: LabelsInts, posteriors: LabelsFloats, owners: int
) -> LabelsFloats:
    """(owners, K true, K labels): labels counted by the probability of each true level."""
    levels = posteriors.shape[1]
    cells = owner * levels + level
    columns = [
        np.bincount(cells, weights=posteriors[:, true], minlength=owners * levels) for true in range(levels)
    ]
    counts: LabelsFloats = np.stack(columns).astype(np.float64)
    return counts.reshape(levels, owners, levels).transpose(1, 0, 2)
