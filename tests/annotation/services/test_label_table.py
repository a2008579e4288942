"""The columns of labels: exact at every look, however the tasks came and went."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from annotation.domain.agreement.label_table import LabelledTask, PersonLabels, build_units, join_units
from annotation.models import Annotation, Assignment, Batch, Guideline, Person, Task
from annotation.selectors.agreement import label_table as module
from annotation.selectors.agreement.label_table import read_gold, read_units
from annotation.services.batches.tasks import restore_tasks, withdraw_tasks
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


def rows(batch: Batch) -> dict[int, tuple[list[int], list[float]]]:
    units = read_units([batch])
    return {
        int(task): (list(map(int, person)), list(map(float, label)))
        for task, person, label in zip(units.task, units.person, units.label, strict=True)
    }


def test_a_unit_has_the_labels_of_its_task_in_the_order_of_the_slots(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    label_next(batch, lin, 1)
    assert len(read_units([batch])) == 0  # one label is still to come
    label_next(batch, chen, 3)
    task = batch.tasks.get(state=Task.State.DISPUTED)
    assert rows(batch) == {task.pk: ([lin.pk, chen.pk], [1.0, 3.0])}
    units = read_units([batch])
    assert units.criterion_names == ("compliance",)
    assert units.stratum.tolist() == [task.stratum_id]
    assert units.finished.tolist() == [timezone.localdate().toordinal()]
    assert np.isnan(read_gold([batch], units).value).all()
    decide_next(batch, wu, 2)
    gold = read_gold([batch], read_units([batch]))
    assert (gold.value.tolist(), gold.decided.tolist()) == ([2.0], [True])


def test_withdrawn_and_brought_back_at_once_is_seen(batch: Batch, lin: Person, chen: Person):
    """The counts are the same before and after: only the version tells."""
    for _item in range(2):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    first, second = sorted(rows(batch))
    withdraw_tasks(batch=batch, tasks=[first], reason="read twice")
    assert sorted(rows(batch)) == [second]
    withdraw_tasks(batch=batch, tasks=[second], reason="read twice")
    restore_tasks(batch=batch, tasks=[first])
    assert sorted(rows(batch)) == [first]


def test_what_came_since_is_put_in_and_never_half(
    batch: Batch, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MIN_UNITS_TO_REFRESH", 0)
    read: list[bool] = []
    tasks = module._iterate_tasks
    monkeypatch.setattr(
        module,
        "_iterate_tasks",
        lambda batch, open_tasks, since=None: (
            read.append(since is None),
            tasks(batch, open_tasks, since=since),
        )[1],
    )
    for value in (1, 2):
        label_next(batch, lin, value)
        label_next(batch, chen, value)
        assert len(rows(batch)) == value
    assert read == [True, False]
    # What was handed in long ago by a clock that was wrong is not found among the new: all is read again.
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)
    late = Assignment.objects.filter(state=Assignment.State.SUBMITTED)
    late.update(submitted_at=timezone.now() - timedelta(days=1))
    assert len(rows(batch)) == 3
    assert read == [True, False, False, True]


def test_units_of_several_batches_share_their_names(
    batch: Batch, guideline: Guideline, lin: Person, chen: Person, zhou: Person
):
    elsewhere = make_corpus(prompts=2, models=["A"], name="elsewhere")
    other = make_batch(guideline, elsewhere, annotators=[lin, chen, zhou], name="second")
    for each_batch in (batch, other):
        label_next(each_batch, lin, 1)
        label_next(each_batch, zhou, 1)
    units = read_units([batch, other])
    assert len(units) == 2
    assert Annotation.objects.count() == units.person.size


def test_joining_fills_the_places_that_a_batch_does_not_have():
    def units(task: int, criterion: str, *values: float) -> object:
        labels = [PersonLabels(place, {criterion: value}, 7, None) for place, value in enumerate(values)]
        return build_units([LabelledTask(task, task, 1, 1, "sub", labels)])

    both = join_units([units(1, "a", 1, 2), units(2, "b", 3, 3, 2)])  # type: ignore[list-item]
    assert both.criterion_names == ("a", "b")
    assert both.criterion.tolist() == [0, 1]
    assert both.person.tolist() == [[0, 1, -1], [0, 1, 2]]
    assert np.isnan(both.label[0, 2])
    assert both.finished.tolist() == [7, 7]
    assert len(join_units([])) == 0
