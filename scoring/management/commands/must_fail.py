"""The former name of ``regression_cases``."""

from annotation.management.base import make_former_name
from scoring.management.commands import regression_cases

Command = make_former_name(regression_cases.Command, former="must_fail", present="regression_cases")
