from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.formatting import format_percent
from annotation.core.specs import check_seed
from annotation.management.base import AssayCommand
from annotation.selectors.releases.releases import get_release
from benchmark.domain.multiple_choice.questions import LabelCondition, QuestionRules, make_questions
from benchmark.selectors.multiple_choice.questions import list_judged_responses


class Command(AssayCommand):
    help = (
        "Make multiple-choice questions of the judged responses of a gold release: a safe and an unsafe response to the"
        " same prompt. import_questions --format cvalues takes the file, and asks each question in both orders."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="OUT", help="JSON lines, a question each; a new file")
        parser.add_argument("--release", required=True, metavar="R", help="the gold")
        parser.add_argument(
            "--safe", required=True, metavar="CONDITION", help="the right option, as in 'safety>=1'"
        )
        parser.add_argument(
            "--unsafe", required=True, metavar="CONDITION", help="the wrong option, as in 'safety<=0'"
        )
        parser.add_argument(
            "--per-prompt",
            type=int,
            default=1,
            metavar="N",
            help="at most so many questions of a prompt (default: %(default)s)",
        )
        parser.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
        parser.add_argument(
            "--language", default="", metavar="L", help="only prompts in this language, such as zh"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        safe, unsafe = (LabelCondition.parse(options[side]) for side in ("safe", "unsafe"))
        release = get_release(options["release"])
        judged = list_judged_responses(release, options["language"])
        rules = QuestionRules(
            safe=safe,
            unsafe=unsafe,
            scales=judged.scales,
            per_prompt=options["per_prompt"],
            seed=check_seed(options["seed"]),
        )
        rules.check()
        made = make_questions(judged.responses, rules)
        if not made.questions:
            raise AssayError(
                N_(
                    "No prompt of {release} has a response with {safe} and another with {unsafe}; widen the conditions."
                ),
                release=release.name,
                safe=str(safe),
                unsafe=str(unsafe),
            )
        with self.new_file(options["file"]) as file:
            for question in made.questions:
                file.write(json.dumps(question.to_row(), ensure_ascii=False) + "\n")
        return {
            "file": options["file"],
            "release": release.name,
            "sha256": release.sha256,
            "safe": str(safe),
            "unsafe": str(unsafe),
            "seed": rules.seed,
            **made.to_json(),
            "dialogues_left_out": judged.dialogues,
            "blank_left_out": judged.blank,
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(
            f"{data['file']}: {data['questions']} questions of {data['prompts_asked']} prompts;"
            f" {data['prompts_one_sided']} prompts have no response of both sides"
        )
        levels = [f"{n} {name}" for name, n in data["difficulty"].items() if name != "-"]
        if levels:
            self.stdout.write(f"difficulty: {', '.join(levels)}")
        for key, name in (("dialogues_left_out", "dialogues"), ("blank_left_out", "empty responses")):
            if data[key]:
                self.stdout.write(f"left out: {data[key]} {name}")
        if len(data["languages"]) > 1:
            self.stdout.write(
                f"the prompts are in {', '.join(data['languages'])}: make a file of each with --language"
            )
        if data["dominant"] is not None:
            self.stdout.write(
                f"warning: {data['dominant']['model']} gives {format_percent(data['dominant']['share'])} of the safe"
                " options: a model may know them by the style of that model, and that model by its own"
            )
