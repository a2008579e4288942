"""Multiple-choice reports made and opened at the same moment."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from annotation.core.errors import Conflict
from annotation.models import Dataset
from benchmark.models import ChoiceReport, ParsedAnswer
from benchmark.selectors.multiple_choice.reports import result_to_json
from benchmark.services.multiple_choice import compute_result
from tests.annotation.services.test_races import at_once
from tests.benchmark.views.test_multiple_choice_pages import reported, six_questions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


@pytest.fixture
def questions(transactional_db: None, tmp_path: Path) -> Dataset:
    return six_questions(tmp_path)


def test_of_two_who_take_one_name_at_once_one_is_refused_in_words(questions: Dataset):
    made = at_once([partial(reported, questions), partial(reported, questions)])
    assert ChoiceReport.objects.count() == 1
    (refusal,) = [outcome for outcome in made if not isinstance(outcome, ChoiceReport)]
    assert isinstance(refusal, Conflict)
    assert str(refusal).startswith("There is a multiple-choice report named fine-1 already")


def test_two_who_open_a_report_at_once_both_get_it(questions: Dataset):
    report = reported(questions)
    opened = at_once([partial(compute_result, report)] * 3)
    assert [result_to_json(result) for result in opened] == [result_to_json(compute_result(report))] * 3
    assert ParsedAnswer.objects.count() == 11
