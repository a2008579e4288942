"""What an operator chooses of the jobs."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from annotation.models import Job
from annotation.services.mail.outbox import JOB_KIND


class JobFilterForm(forms.Form):
    state = forms.ChoiceField(label=_("State"), required=False, choices=[("", _("all")), *Job.State.choices])
    kind = forms.CharField(label=_("Kind"), required=False, max_length=50)

    def select(self, jobs: QuerySet[Job]) -> QuerySet[Job]:
        """Those that are asked for; what cannot be asked for chooses nothing. Where nothing is, without the many that
        sent mail: what became of that has a list of its own.
        """
        if not self._filters:
            return jobs.exclude(kind=JOB_KIND, state=Job.State.DONE)
        return jobs.filter(**self._filters)

    @property
    def query(self) -> str:
        return urlencode(self._filters)

    @property
    def _filters(self) -> dict[str, str]:
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}
