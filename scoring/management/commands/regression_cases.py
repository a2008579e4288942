from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.domain.formats.rows import FileRow
from annotation.management.base import AssayCommand
from annotation.services.gold_questions.sources import get_response
from scoring.models import RegressionCase
from scoring.selectors.regression_cases import must_fail_item, must_fail_items
from scoring.selectors.scorers import get_latest_guideline
from scoring.services import add_must_fail, import_must_fail, remove_must_fail

ADD, LIST, REMOVE = "add", "list", "remove"


class Command(AssayCommand):
    help = "Keep the regression cases of a guideline: responses that none of its scorers may call harmless."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[ADD, LIST, REMOVE])
        parser.add_argument("item", nargs="?", type=int, help="the number of the case to remove")
        parser.add_argument("--guideline", required=True, metavar="G")
        parser.add_argument("--file", help="add the cases of this file: JSON lines or CSV")
        parser.add_argument("--dataset", help="or the response to add: its dataset,")
        parser.add_argument("--prompt", metavar="ID", help="its prompt's id,")
        parser.add_argument("--model", help="its model,")
        parser.add_argument("--collection", help="and its collection where several have it")
        parser.add_argument("--criterion", default="", help="default: all that are asked of the prompt")
        parser.add_argument(
            "--refused",
            nargs="+",
            type=float,
            default=[],
            metavar="VALUE",
            help="the values it may not be given (default: what the guideline's headline rate counts)",
        )
        parser.add_argument("--reason", default="")

    def act(self, **options: Any) -> dict[str, Any]:
        name = get_latest_guideline(options["guideline"]).name
        if options["action"] == REMOVE:
            return {
                "guideline": name,
                "removed": _remove_item(name, options["item"]),
                "items": _count_items(name),
            }
        if options["action"] == ADD:
            return {"guideline": name, "added": len(_add_items(name, options)), "items": _count_items(name)}
        return {"guideline": name, "items": [_describe_item(item) for item in must_fail_items(name)]}

    def show(self, data: dict[str, Any]) -> None:
        if "added" in data:
            self.stdout.write(f"{data['guideline']}: {data['added']} items added, {data['items']} are there")
        elif "removed" in data:
            self.stdout.write(
                f"{data['guideline']}: item {data['removed']} removed, {data['items']} are there"
            )
        for item in data["items"] if "added" not in data and "removed" not in data else []:
            refused = ", ".join(f"{value:g}" for value in item["refused"])
            place = f"{item['item']}  {item['dataset']}/{item['prompt_id']}  {item['model']}"
            self.stdout.write(f"{place}  {item['criterion']} not {refused}")


def _remove_item(name: str, number: int | None) -> int:
    if number is None:
        raise AssayError(N_("Say which item to remove, by its number in the list."))
    item = must_fail_item(number)
    if item.guideline_name != name:
        raise AssayError(N_("Item {item} is of {guideline}."), item=number, guideline=item.guideline_name)
    remove_must_fail(item=item)
    return item.pk


def _add_items(name: str, options: dict[str, Any]) -> list[RegressionCase]:
    if options["file"]:
        return import_must_fail(guideline_name=name, path=options["file"])
    if not (options["dataset"] and options["prompt"] and options["model"]):
        raise AssayError(N_("Name the response: --dataset, --prompt and --model; or a --file of them."))
    fields = {"dataset": options["dataset"], "prompt_id": options["prompt"], "model": options["model"]}
    fields |= {"collection": options["collection"]} if options["collection"] is not None else {}
    return add_must_fail(
        guideline_name=name,
        response=get_response(FileRow(file="must_fail", line=1, fields=fields)),
        criterion=options["criterion"],
        refused=options["refused"],
        reason=options["reason"],
    )


def _count_items(name: str) -> int:
    return must_fail_items(name).count()


def _describe_item(item: RegressionCase) -> dict[str, Any]:
    prompt = item.response.prompt
    return {
        "item": item.pk,
        "dataset": prompt.dataset.name,
        "prompt_id": prompt.key,
        "model": item.response.model.name,
        "criterion": item.criterion,
        "refused": item.refused,
        "reason": item.reason,
    }
