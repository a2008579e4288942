"""What is wrong with an annotator: guessing, severity, drift, copying, haste. Pure.

Nobody knows the truth, so everybody is judged by the others, and everybody's faults disturb the others' figures. Each
figure therefore comes from a model of all people together, in which one person's fault is that person's parameter.
The formulas, their sources, the corrections and how small a fault is found stand in ``docs/quality.md``.
"""

from annotation.raters.findings import Copying, Finding, Kind, Profile, Profiles
from annotation.raters.labels import Labels, Scale
from annotation.raters.profiles import profiles

__all__ = ["Copying", "Finding", "Kind", "Labels", "Profile", "Profiles", "Scale", "profiles"]
