"""The former name of ``add_gold_questions``."""

from annotation.management.base import make_former_name
from annotation.management.commands import add_gold_questions

Command = make_former_name(add_gold_questions.Command, former="add_known_items", present="add_gold_questions")
