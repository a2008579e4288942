"""The former name of ``multiple_choice_report``."""

from annotation.management.base import make_former_name
from benchmark.management.commands import multiple_choice_report

Command = make_former_name(
    multiple_choice_report.Command, former="choice_report", present="multiple_choice_report"
)
