"""Two plans at the same moment: what is drawn for one is not drawn for the other."""

from __future__ import annotations

from functools import partial

import pytest

from annotation.domain.batch_spec import Policy
from annotation.models import Guideline, Person
from benchmark.models import LabelPlan
from benchmark.selectors.estimates.label_plan import PlanGoal, get_labelling_status
from benchmark.services.estimates import create_label_plan, load_standing
from tests.annotation.services.test_races import at_once
from tests.benchmark.labelling_support import run_of, run_with_gold, scorer_like


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_draw_no_response_twice(guideline: Guideline, lin: Person, chen: Person):
    run = run_with_gold(guideline, [lin, chen])
    other = run_of(scorer_like(run, guideline, "scorer-2"), run.dataset, name="other")
    plan = partial(
        create_label_plan, goal=PlanGoal(half_width=0.1), annotators=[chen], policy=Policy(overlap=1)
    )
    made = at_once([partial(plan, run=run, name="one"), partial(plan, run=other, name="two")])
    plans = [outcome for outcome in made if isinstance(outcome, LabelPlan)]
    drawn = [response for plan in plans for response in plan.batch.tasks.values_list("response", flat=True)]
    assert len(drawn) == len(set(drawn)) > 0
    strata = {frozenset((stratum["low"], stratum["high"]) for stratum in plan.strata) for plan in plans}
    assert len(strata) == 1


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_views_at_once_keep_the_same(guideline: Guideline, lin: Person, chen: Person):
    run = run_with_gold(guideline, [lin, chen])
    other = run_of(scorer_like(run, guideline, "scorer-2"), run.dataset, name="again")
    create_label_plan(
        run=run, goal=PlanGoal(half_width=0.1), name="next", annotators=[chen], policy=Policy(overlap=1)
    )
    first, second = at_once([partial(load_standing, other)] * 2)
    assert first == second == get_labelling_status(other)
    assert get_labelling_status(other).is_stored
