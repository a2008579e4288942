"""How strong models are by pairwise comparisons: Bradley and Terry's model, and Davidson's for ties. Pure.

With eta the strength of the model that was displayed first less that of the other, plus the effect of position, plus
the coefficient of length times the logarithm of the ratio of lengths, the three outcomes have chances proportional to

    exp(eta / 2) first preferred,    exp(-eta / 2) second preferred,    nu a tie.

Without ties (nu = 0): R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324-345. With them: R. R. Davidson, Journal
of the American Statistical Association 65 (1970) 317-328; with an effect of position R. R. Davidson and R. J. Beaver,
Biometrics 33 (1977) 693-702, whose multiplicative order effect g is exp(-position) here and whose nu is sqrt(g) times
this one. Strengths have the mean 0.

Shapes: K models, R rows of the design, B draws, Q parameters of eta (K - 1, the position, the length).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from benchmark.domain.leaderboards.preferences.comparisons import DesignCounts, PairwiseComparisons
from benchmark.domain.leaderboards.responses import Floats, Integers, Mask

NO_DECISION, DISCONNECTED, SEPARATED = "no_decision", "disconnected", "separated"
TIES, POSITION, LENGTH = "ties", "position", "length"
ELO_CENTRE, ELO_SCALE = 1000.0, 400.0
MAX_STEPS = 100
MAX_REACH = 1.5
"""A Newton step moves no log-odds further: within it the likelihood grows (F. Bach, Electronic Journal of Statistics 4
(2010) 384-414), so that no step has to be tried out."""
PRECISION = 1e-8
"""Steps that move no log-odds further than this are the last. Where there is no maximum they stay near 1."""
MIN_CURVATURE = 1e-9
"""The least eigenvalue of the information, its diagonal scaled to 1, of a maximum."""
MIN_GAIN = 1e-5
"""What linear programming finds below this is its own tolerance; Newton's method has the last word."""
BLOCK_CELLS = 2_000_000


@dataclass(frozen=True)
class PreferenceTerms:
    """What the model has beside strengths; without ``ties`` they are left out."""

    ties: bool = True
    position: bool = True
    length: bool = False


@dataclass(frozen=True)
class UndefinedStrengths:
    """``groups`` are the models concerned: those that never met, those of which an earlier never lost to a later."""

    reason: str
    groups: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class StrengthFit:
    """Maximum likelihood, or why there is none. ``nu`` is None without ties, the others where the terms lack them."""

    models: tuple[str, ...]
    terms: PreferenceTerms
    strengths: Floats | None
    nu: float | None = None
    position: float | None = None
    length: float | None = None
    undefined: UndefinedStrengths | None = None


@dataclass(frozen=True, eq=False)
class FittedDraws:
    """``strengths`` (B, K) and the other terms (B,); NaN in draws that have no maximum."""

    strengths: Floats
    nu: Floats
    position: Floats
    length: Floats

    @property
    def exists(self) -> Mask:
        return np.asarray(~np.isnan(self.strengths).any(axis=1))


def fit_bradley_terry(
    comparisons: PairwiseComparisons, *, position: bool = False, length: bool = False
) -> StrengthFit:
    """Ties left out."""
    return fit_strengths(comparisons, PreferenceTerms(ties=False, position=position, length=length))


def fit_davidson(
    comparisons: PairwiseComparisons, *, position: bool = False, length: bool = False
) -> StrengthFit:
    """Without any tie nu is 0, and the strengths are Bradley and Terry's."""
    return fit_strengths(comparisons, PreferenceTerms(ties=True, position=position, length=length))


def fit_strengths(comparisons: PairwiseComparisons, terms: PreferenceTerms) -> StrengthFit:
    """Undefined where the likelihood has no maximum, or more than one."""
    if terms.length and comparisons.length_difference is None:
        raise ValueError("length_difference: missing, and the terms ask for it")
    counts = DesignCounts.build(comparisons, ties=terms.ties, length=terms.length)
    undefined = find_undefined(comparisons.models, counts, terms)
    if undefined:
        return StrengthFit(comparisons.models, terms, None, undefined=undefined)
    fitted = fit_draws(counts, np.ones((counts.prompts, 1)), terms)
    if not fitted.exists[0]:  # beyond what floats can tell from no maximum
        return StrengthFit(comparisons.models, terms, None, undefined=UndefinedStrengths(SEPARATED))
    return StrengthFit(
        comparisons.models,
        terms,
        fitted.strengths[0],
        float(fitted.nu[0]) if terms.ties else None,
        float(fitted.position[0]) if terms.position else None,
        float(fitted.length[0]) if terms.length else None,
    )


def compute_elo(strength: float) -> float:
    """A reading of the same number, on the scale of chess: 400 points are odds of ten to one."""
    return ELO_CENTRE + ELO_SCALE / float(np.log(10)) * strength


def find_undefined(
    models: tuple[str, ...], counts: DesignCounts, terms: PreferenceTerms
) -> UndefinedStrengths | None:
    """Why the likelihood has no single maximum, if so.

    Without further terms and without ties that is L. R. Ford's condition, American Mathematical Monthly 64 (1957),
    part 2, 28-33: whoever is split into two groups, some model of each has won against some model of the other. A tie
    counts as a win of both for that. Beyond it: a direction in which the likelihood never falls (A. Albert and
    J. A. Anderson, Biometrika 71 (1984) 1-10), found by linear programming.
    """
    size = len(models)
    won, lost, tied = (
        np.asarray(part.sum(axis=1)).reshape(-1) > 0 for part in (counts.wins, counts.losses, counts.ties)
    )
    if not (won | lost).any():
        return UndefinedStrengths(NO_DECISION)
    links = _link_winners(counts, won, lost, tied, size)
    for reason, graph in ((DISCONNECTED, links + links.T), (SEPARATED, links)):
        groups, label = connected_components(graph, directed=True, connection="strong")
        if groups > 1:
            return UndefinedStrengths(reason, _order_groups(models, graph, label.astype(np.int64)))
    # A term is at fault if the model without it has a maximum.
    for reason, fewer in (
        (TIES, replace(terms, position=False, length=False)),
        (POSITION, replace(terms, length=False)),
        (LENGTH, terms),
    ):
        design = _build_design(counts, fewer)
        if np.linalg.matrix_rank(design) < design.shape[1]:
            return UndefinedStrengths(reason)
        if _has_direction(design, won, lost, tied, ties=bool(tied.any())):
            return UndefinedStrengths(reason)
    return None


def _link_winners(counts: DesignCounts, won: Mask, lost: Mask, tied: Mask, size: int) -> csr_array:
    """(K, K): from who won, or tied, to who lost."""
    winner = np.concatenate([counts.first[won | tied], counts.second[lost | tied]])
    loser = np.concatenate([counts.second[won | tied], counts.first[lost | tied]])
    return csr_array((np.ones(len(winner)), (winner, loser)), shape=(size, size))


def _order_groups(models: tuple[str, ...], links: csr_array, label: Integers) -> tuple[tuple[str, ...], ...]:
    """The groups of models of equal label, those from which most models can be reached first."""
    reached = _close(links.toarray()[None] > 0)[0].sum(axis=1)
    groups = [np.flatnonzero(label == number) for number in range(label.max() + 1)]
    groups.sort(key=lambda group: (-int(reached[group[0]]), int(group[0])))
    return tuple(tuple(models[at] for at in group) for group in groups)


def _close(links: Mask) -> Mask:
    """(B, K, K): which model can be reached from which, in any number of steps, 0 included."""
    size = links.shape[-1]
    reach = (links | np.eye(size, dtype=bool)).astype(np.float32)
    for _step in range(max(1, int(np.ceil(np.log2(max(size, 2)))))):
        reach = np.minimum(reach @ reach, 1)
    return np.asarray(reach > 0)


def _has_direction(design: Floats, won: Mask, lost: Mask, tied: Mask, *, ties: bool) -> bool:
    """Whether the parameters can move for ever, towards chances of 0 and 1, without the likelihood falling.

    A direction moves eta by e and log nu by t; what was observed never becomes less likely if e >= 0 and e >= 2 t where
    the first won, the same of -e where it lost, and 2 t >= |e| where there was a tie.
    """
    tie = 2.0 if ties else 0.0
    rows = [(1, 0.0, won), (-1, 0.0, lost)]
    if ties:
        rows += [(1, -tie, won), (-1, -tie, lost), (1, tie, tied), (-1, tie, tied)]
    gains = np.concatenate(
        [
            np.column_stack([sign * design[is_row], np.full(int(is_row.sum()), move)])
            for sign, move, is_row in rows
        ]
    )
    if not ties:
        gains = gains[:, :-1]
    bound = np.abs(gains).max(axis=0, initial=1.0)
    gains /= np.where(bound > 0, bound, 1.0)
    solved = linprog(-gains.sum(axis=0), A_ub=-gains, b_ub=np.zeros(len(gains)), bounds=(-1, 1))
    return solved.status == 0 and float((gains @ solved.x).max(initial=0.0)) > MIN_GAIN


def _build_design(counts: DesignCounts, terms: PreferenceTerms) -> Floats:
    """(R, Q): what eta is of the parameters. Strengths are sums of K - 1 orthogonal contrasts."""
    contrasts = _build_contrasts(counts.models)
    columns = [contrasts[counts.first] - contrasts[counts.second]]
    if terms.position:
        columns.append(np.ones((len(counts.first), 1)))
    if terms.length:
        columns.append(counts.length[:, None])
    return np.concatenate(columns, axis=1)


def _build_contrasts(models: int) -> Floats:
    """(K, K - 1)"""
    return np.asarray(helmert(models).T) if models > 1 else np.zeros((models, 0))


def fit_draws(
    counts: DesignCounts, drawn: Floats, terms: PreferenceTerms, start: StrengthFit | None = None
) -> FittedDraws:
    """The maximum of each draw of prompts (P, B), by Newton's method, all at once.

    A draw that breaks Ford's condition, or whose steps do not become small, has none. ``start`` is where they begin.
    """
    design = _build_design(counts, terms)
    draws = drawn.shape[1]
    parameters, log_nu = np.zeros((draws, design.shape[1])), np.zeros(draws)
    if start is not None and start.strengths is not None:
        parameters[:] = [
            *(_build_contrasts(counts.models).T @ start.strengths),
            *([start.position] if terms.position else []),
            *([start.length] if terms.length else []),
        ]
        log_nu[:] = np.log(start.nu) if start.nu else 0.0
    exists = np.zeros(draws, dtype=bool)
    block = max(1, BLOCK_CELLS // max(1, len(design)))
    for begin in range(0, draws, block):
        part = slice(begin, begin + block)
        observed = counts.draw(drawn[:, part])
        exists[part] = _is_connected(counts, *observed)
        exists[part] &= _maximise(design, observed, parameters[part], log_nu[part], exists[part])
    parameters[~exists], log_nu[~exists] = np.nan, np.nan
    strengths = parameters[:, : counts.models - 1] @ _build_contrasts(counts.models).T
    no_term = np.full(draws, np.nan)
    return FittedDraws(
        strengths,
        np.exp(log_nu) if terms.ties else no_term,
        parameters[:, counts.models - 1] if terms.position else no_term,
        parameters[:, -1] if terms.length else no_term,
    )


def _is_connected(counts: DesignCounts, wins: Floats, losses: Floats, ties: Floats) -> Mask:
    """(B,): whether each model can be reached from every other over wins and ties."""
    size, draws = counts.models, len(wins)
    won, lost = (wins + ties > 0), (losses + ties > 0)
    links = np.zeros((draws, size, size), dtype=bool)
    for row, (first, second) in enumerate(zip(counts.first, counts.second, strict=True)):
        links[:, first, second] |= won[:, row]
        links[:, second, first] |= lost[:, row]
    return np.asarray(_close(links).all(axis=(1, 2)))


def _maximise(
    design: Floats,
    observed: tuple[Floats, Floats, Floats],
    parameters: Floats,
    log_nu: Floats,
    may_exist: Mask,
) -> Mask:
    """Writes the maxima into ``parameters`` (B, Q) and ``log_nu`` (B,), and says which there are (B,)."""
    size = design.shape[1]
    pairs = np.triu_indices(size)
    products = design[:, pairs[0]] * design[:, pairs[1]]
    has_ties = observed[2].sum(axis=1) > 0
    log_nu[~has_ties] = -np.inf
    exists = np.zeros(len(parameters), dtype=bool)
    active = np.flatnonzero(may_exist)
    for _step in range(MAX_STEPS):
        if not len(active):
            break
        own_ties = has_ties[active]
        part = tuple(counts[active] for counts in observed)
        gradient, curvature, cross, own = _differentiate(
            design, products, part, parameters[active], log_nu[active]
        )
        information = np.zeros((len(active), size + 1, size + 1))
        information[:, pairs[0], pairs[1]] = information[:, pairs[1], pairs[0]] = curvature
        information[:, :size, size] = information[:, size, :size] = np.where(own_ties[:, None], cross, 0.0)
        information[:, size, size] = np.where(own_ties, own, 1.0)
        gradient[~own_ties, size] = 0.0
        step = _solve(information, gradient)
        moved = np.abs(step[:, :size] @ design.T).max(axis=1)
        reach = np.maximum(moved, moved / 2 + np.abs(step[:, size]))
        is_number = np.isfinite(reach)
        scale = np.where(is_number, MAX_REACH / np.maximum(reach, MAX_REACH), 0.0)
        step = np.where(is_number[:, None], step, 0.0) * scale[:, None]
        parameters[active] += step[:, :size]
        log_nu[active] += step[:, size]
        is_last = is_number & (reach < PRECISION)
        exists[active[is_last]] = _is_curved(information[is_last])
        active = active[is_number & ~is_last]
    return exists


def _differentiate(
    design: Floats, products: Floats, observed: tuple[Floats, ...], parameters: Floats, log_nu: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Of the log likelihood: the gradient (B, Q + 1), the information of eta (B, Q (Q + 1) / 2), that of eta with
    log nu (B, Q), and that of log nu (B,)."""
    wins, losses, ties = observed
    n = wins + losses + ties
    half = parameters @ design.T / 2
    peak = np.maximum(np.abs(half), log_nu[:, None])
    up, down, even = np.exp(half - peak), np.exp(-half - peak), np.exp(log_nu[:, None] - peak)
    total = up + down + even
    lead, tie = (up - down) / total / 2, even / total
    win, loss = (up + even / 2) / total, (down + even / 2) / total
    decided = (up + down) / total
    # Differences of chances are written out: where one is all but sure, to subtract it from 1 leaves nothing, and a
    # step towards a maximum that does not exist would look like the last.
    gradient = np.concatenate(
        [
            (wins * loss - losses * win - ties * lead) @ design,
            (ties * decided - (wins + losses) * tie).sum(axis=1, keepdims=True),
        ],
        axis=1,
    )
    spread = (up * down + (up + down) * even / 4) / total**2
    return (
        gradient,
        (n * spread) @ products,
        -(n * lead * tie) @ design,
        (n * tie * decided).sum(axis=1),
    )


def _solve(information: Floats, gradient: Floats) -> Floats:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(np.linalg.solve(information, gradient[..., None])[..., 0])
    except np.linalg.LinAlgError:  # some of them have no inverse: those are of draws without a maximum
        steps = np.full(gradient.shape, np.nan)
        for at, (matrix, slope) in enumerate(zip(information, gradient, strict=True)):
            try:
                steps[at] = np.linalg.solve(matrix, slope)
            except np.linalg.LinAlgError:
                continue
        return steps


def _is_curved(information: Floats) -> Mask:
    """(B,): whether the information can be inverted, whatever the units of the parameters are."""
    scale = np.sqrt(np.maximum(np.diagonal(information, axis1=1, axis2=2), np.finfo(float).tiny))
    scaled = information / scale[:, :, None] / scale[:, None, :]
    return np.asarray(np.linalg.eigvalsh(scaled).min(axis=1, initial=np.inf) > MIN_CURVATURE)
