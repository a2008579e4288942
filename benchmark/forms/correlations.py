"""What the page of correlations takes in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmark.selectors.correlations import MODEL, RESPONSE

MAX_FILE_BYTES = 20 * 1024 * 1024


class MetricsForm(forms.Form):
    """``file`` is read and not kept."""

    level = forms.ChoiceField(
        label=gettext_lazy("Compared"),
        choices=[
            (RESPONSE, gettext_lazy("response by response")),
            (MODEL, gettext_lazy("the means of the models")),
        ],
        initial=RESPONSE,
    )
    file = forms.FileField(
        label=gettext_lazy("Automatic metrics"),
        required=False,
        help_text=gettext_lazy(
            "CSV with prompt_id, model and a column for each metric; a column NAME.CRITERION is of that criterion"
            " alone. The file is read and not kept."
        ),
    )

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file is not None and file.size > MAX_FILE_BYTES:
            raise forms.ValidationError(_("This file is larger than 20 MiB; use the command correlate."))
        return file
