"""How many prompts are wanted of each cell: a place of the guideline and an attack method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmark.domain.workbench.campaigns import MAX_WANTED, QuotaSpec
from benchmark.models import Campaign, Quota

CELL = "cell"
Cell = tuple[str, str, str]
"""The names of a dimension, a subcomponent and a method."""
Places = Sequence[tuple[str, Sequence[tuple[tuple[str, str], str]]]]
"""By the label of a dimension: each place, its dimension and its subcomponent, with its label."""


@dataclass(frozen=True)
class QuotaRow:
    """A row of the table of quotas. ``opens_group``: it is the first of several of its dimension."""

    dimension: str
    opens_group: bool
    label: str
    cells: tuple[forms.BoundField, ...]


class QuotaTableForm(forms.Form):
    """A number for each place of the guideline and each method, in fields named by the place's and method's order."""

    per_person = forms.IntegerField(
        label=gettext_lazy("Most of a cell by one person"),
        min_value=1,
        max_value=MAX_WANTED,
        required=False,
        help_text=gettext_lazy("So that no cell is one person's style. Empty: no limit."),
    )

    def __init__(
        self,
        data: Any,
        *,
        places: Places,
        methods: Sequence[tuple[str, str]],
        numbers: Mapping[Cell, int],
    ) -> None:
        """``methods`` are (name, label) each; ``numbers`` what stands in a cell before anybody types."""
        super().__init__(data)
        self.method_labels = [label for _name, label in methods]
        self.cells: dict[str, Cell] = {}
        self.table: list[QuotaRow] = []
        for dimension_label, group in places:
            for number, ((dimension, subcomponent), label) in enumerate(group):
                row = len(self.table)
                place_labels = [dimension_label, label] if subcomponent else [dimension_label]
                cells = [
                    self._add_cell(
                        f"{CELL}-{row}-{column}",
                        (dimension, subcomponent, method),
                        [*(place_labels if dimension else ()), method_label],
                        numbers,
                    )
                    for column, (method, method_label) in enumerate(methods)
                ]
                opens_group = bool(subcomponent) and number == 0
                self.table.append(QuotaRow(dimension_label, opens_group, label, tuple(cells)))

    def _add_cell(
        self, name: str, cell: Cell, labels: Sequence[str], numbers: Mapping[Cell, int]
    ) -> forms.BoundField:
        label = " / ".join(labels)
        self.cells[name] = cell
        self.fields[name] = forms.IntegerField(
            label=label,
            min_value=0,
            max_value=MAX_WANTED,
            required=False,
            initial=numbers.get(cell),
            widget=forms.NumberInput(attrs={"aria-label": label, "inputmode": "numeric"}),
        )
        return self[name]

    @property
    def has_subcomponents(self) -> bool:
        return any(subcomponent for _dimension, subcomponent, _method in self.cells.values())

    @property
    def has_cell_errors(self) -> bool:
        return not self.cells.keys().isdisjoint(self.errors)

    def list_numbers(self) -> dict[Cell, int | None]:
        """By cell; None where nothing was typed."""
        return {cell: self.cleaned_data.get(name) for name, cell in self.cells.items()}


def build_quota_spec(cell: Cell, number: int, per_person: int | None) -> QuotaSpec:
    dimension, subcomponent, method = cell
    return QuotaSpec(
        dimension=dimension, subcomponent=subcomponent, method=method, wanted=number, per_person=per_person
    )


class CampaignQuotaForm(QuotaTableForm):
    """The quotas of a campaign as they are, to be changed. A cell that is in it stays in it."""

    def __init__(
        self, data: Any = None, *, campaign: Campaign, places: Places, methods: Sequence[tuple[str, str]]
    ) -> None:
        self.quotas = {
            (quota.dimension, quota.subcomponent, quota.method.name): quota
            for quota in Quota.objects.filter(campaign=campaign).select_related("method")
        }
        numbers = {cell: quota.wanted for cell, quota in self.quotas.items()}
        super().__init__(data, places=places, methods=methods, numbers=numbers)
        limits = {quota.per_person for quota in self.quotas.values()}
        self.fields["per_person"].initial = limits.pop() if len(limits) == 1 else None

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for name, cell in self.cells.items():
            if cell in self.quotas and name in data and not data[name]:
                self.add_error(name, _("A cell of the campaign stays in it: 1 is the least that it wants."))
        return data

    def list_changes(self) -> list[QuotaSpec]:
        """Of the cells that differ from what they are."""
        changes = []
        limit, is_limit_changed = self.cleaned_data["per_person"], "per_person" in self.changed_data
        for cell, number in self.list_numbers().items():
            quota = self.quotas.get(cell)
            if not number:
                continue
            per_person = limit if quota is None or is_limit_changed else quota.per_person
            if quota is None or (quota.wanted, quota.per_person) != (number, per_person):
                changes.append(build_quota_spec(cell, number, per_person))
        return changes
