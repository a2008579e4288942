"""The agreement page: whether labels can be trusted, where they cannot and why, and the tasks behind each figure."""

from annotation.views.agreement.page import agreement
from annotation.views.agreement.tasks import agreement_tasks

__all__ = ["agreement", "agreement_tasks"]
