from __future__ import annotations

from annotation.errors import N_, NotFound
from annotation.models import Dataset, EvaluatedModel


def dataset_named(name: str) -> Dataset:
    found = Dataset.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(Dataset.objects.values_list("name", flat=True)) or "-"
        raise NotFound(N_("There is no dataset named {name}; known are: {known}."), name=name, known=known)
    return found


def models_named(names: list[str]) -> list[EvaluatedModel]:
    """The evaluated models of these names, in this order; an unknown name is an error."""
    found = {model.name: model for model in EvaluatedModel.objects.filter(name__in=names)}
    unknown = [name for name in names if name not in found]
    if unknown:
        known = ", ".join(EvaluatedModel.objects.values_list("name", flat=True)) or "-"
        raise NotFound(
            N_("There is no evaluated model named {names}; known are: {known}."),
            names=", ".join(unknown),
            known=known,
        )
    return [found[name] for name in dict.fromkeys(names)]
