"""What a user of the version before knows still leads to where it is now: addresses and commands."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command, get_commands
from django.test import Client

FORMER_ADDRESSES = {
    "/care/": "/wellbeing/",
    "/account/care/": "/account/wellbeing/",
    "/batches/a batch/known/7/?page=2": "/batches/a%20batch/gold-questions/7/?page=2",
    "/runs/-/collecting/3/progress/": "/runs/-/collection/3/progress/",
    "/runs/board/label-next/?target=5": "/runs/board/label-plan/?target=5",
    "/scorers/-/must-fail/flames/add/": "/scorers/-/regression-cases/flames/add/",
}
FORMER_COMMANDS = {
    ("add_known_items", "none"): "add_gold_questions",
    ("choice_report", "none"): "multiple_choice_report",
    ("must_fail", "list", "--guideline", "none"): "regression_cases",
}


@pytest.mark.parametrize(("former", "present"), FORMER_ADDRESSES.items())
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_former_address_leads_to_the_present_one(client: Client, former: str, present: str, method: str):
    response = getattr(client, method)(former)
    assert (response.status_code, response["Location"]) == (308, present)


@pytest.mark.parametrize("address", ["/runs/known/", "/careful/", "/batches/known/"])
def test_no_other_address_is_moved(client: Client, address: str):
    assert client.get(address).status_code != 308


@pytest.mark.django_db
@pytest.mark.django_db
@pytest.mark.parametrize(("words", "present"), FORMER_COMMANDS.items())
def test_a_former_command_answers_with_the_present_one(words: tuple[str, ...], present: str):
    former, *arguments = words
    assert {former, present} <= set(get_commands())
    errors = io.StringIO()
    with pytest.raises((SystemExit, CommandError)):
        call_command(former, *arguments, stderr=errors)
    assert errors.getvalue().startswith(f"{former} is called {present} now")
