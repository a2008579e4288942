from __future__ import annotations

import numpy as np
import pytest

from annotation.core.errors import AssayError
from scoring.backbones.choices import IMPOSSIBLE, HeadChoice, HeadLabels, choose_form
from scoring.backbones.ngram import NgramBackbone
from scoring.domain.evaluation.soft_labels import measure_soft_labels, share_levels
from scoring.domain.spec import Spec
from scoring.domain.tables import AnnotatorLabels
from scoring.domain.training_data import Example, Head
from scoring.domain.training_spec import TrainingSpec

HEAD = Head("c", (1, 2, 3), "ordinal")


def test_the_shares_are_of_those_who_answered():
    labels = [[{"c": 1}, {"c": 3}, {}], [], [{}]]
    shares = share_levels(AnnotatorLabels.collect(labels, [HEAD]), [HEAD], 3)
    assert list(shares) == [{"c": {1: 0.5, 2: 0.0, 3: 0.5}}, {}, {}]


def test_cross_entropy_and_distance_of_known_distributions():
    annotated = [{"c": {1: 0.5, 2: 0.5, 3: 0.0}}, {"c": {1: 1.0, 2: 0.0, 3: 0.0}}, {}]
    predicted = [
        {"c": {1: 0.25, 2: 0.5, 3: 0.25}},
        {"c": {1: 1.0, 2: 0.0, 3: 0.0}},
        {"c": {1: 1.0, 2: 0.0, 3: 0.0}},
    ]
    figures = measure_soft_labels(predicted, annotated, [HEAD])["c"]
    assert figures["n"] == 2
    assert figures["cross_entropy"] == pytest.approx((1.5 * np.log(2) + 0) / 2)
    assert figures["entropy"] == pytest.approx(np.log(2) / 2)
    # Middle (.375, .5, .125): its entropy 1.40564 bits, less the mean of 1 and 1.5; the root of .15564; the other is 0.
    assert figures["jensen_shannon"] == pytest.approx(0.39451 / 2, abs=1e-4)


def test_nothing_said_is_undefined():
    assert measure_soft_labels([{}], [{}], [HEAD])["c"] == {
        "n": 0,
        "cross_entropy": None,
        "entropy": None,
        "jensen_shannon": None,
    }


def test_what_people_said_and_no_fold_had_learned_leaves_nothing_to_choose_by():
    """An adjudicator decided otherwise than all annotators: gold was predicted, what they said could not be."""
    example = Example("0", "p0", "a", "b", labels={"c": 1}, soft={"c": {1: 0.0, 2: 0.0, 3: 1.0}})
    logs = np.log(np.array([[1.0, IMPOSSIBLE, IMPOSSIBLE]]))
    (labels,) = HeadLabels.collect([example], [HEAD])
    choice = choose_form(labels, {"multinomial": {"c": logs}}, np.zeros(1, np.int64), 0.5)
    assert isinstance(choice, HeadChoice)
    assert choice.losses == {}


def make_rows(target: str) -> list[Example]:
    """Of every text that says "maybe" half of the people said 1 and half 3; gold is the first of them."""
    rows = []
    for i in range(60):
        word, label = (("surely", 3), ("never", 1), ("maybe", 1))[i % 3]
        soft = (
            {1: 0.5, 2: 0.0, 3: 0.5}
            if word == "maybe"
            else {level: float(level == label) for level in (1, 2, 3)}
        )
        rows.append(
            Example(
                f"{i}",
                f"p{i}",
                f"the text of the prompt {i}",
                f"{word} {word} indeed",
                labels={"c": label},
                soft={"c": soft} if target == "distribution" else {},
            )
        )
    return rows


def test_a_scorer_that_learns_the_distribution_says_both_where_people_said_both():
    maybe = [Example("x", "x", "another text of a prompt", "maybe maybe indeed")]
    by_target = {
        target: NgramBackbone().fit(make_rows(target), [HEAD]).predict(maybe)[0]["c"]
        for target in ("label", "distribution")
    }
    assert by_target["label"][1] > 0.9
    assert by_target["distribution"][1] == pytest.approx(0.5, abs=0.1)
    assert by_target["distribution"][3] == pytest.approx(0.5, abs=0.1)


def test_distributions_of_one_person_are_labels():
    certain = [
        Example(
            e.key,
            e.prompt_key,
            e.prompt,
            e.response,
            labels=e.labels,
            soft={"c": HEAD.certain(e.labels["c"])},
        )
        for e in make_rows("label")
    ]
    labels, soft = (
        NgramBackbone().fit(rows, [HEAD]).predict(certain[:6]) for rows in (make_rows("label"), certain)
    )
    for plain, spread in zip(labels, soft, strict=True):
        assert spread["c"] == pytest.approx(plain["c"], abs=1e-3)


def test_a_target_that_is_none_is_refused_and_the_label_is_no_news_to_the_jobs_of_the_version_before():
    with pytest.raises(AssayError, match="use label, distribution"):
        TrainingSpec(name="s", release=1, target="votes")
    assert "target" not in TrainingSpec(name="s", release=1).build_config(Spec())
    assert (
        TrainingSpec(name="s", release=1, target="distribution").build_config(Spec())["target"]
        == "distribution"
    )
