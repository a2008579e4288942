"""A form offers no row of another study: no field of a form's class holds rows, for whoever asks comes later."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from django import forms

import annotation.forms
import benchmark.forms
import scoring.forms
from annotation.forms.fields import StudyChoiceField
from annotation.models import Guideline, OfStudy


def list_forms() -> Iterator[type[forms.BaseForm]]:
    for package in (annotation.forms, scoring.forms, benchmark.forms):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting: list[type[forms.BaseForm]] = [forms.BaseForm]
    while waiting:
        for form in waiting.pop().__subclasses__():
            waiting.append(form)
            if form.__module__.startswith(("annotation.", "scoring.", "benchmark.")):
                yield form


def test_choices_among_rows_of_studies_are_read_for_each_form():
    checked = 0
    for form in list_forms():
        for name, field in getattr(form, "base_fields", {}).items():
            if not isinstance(field, forms.ModelChoiceField):
                continue
            if issubclass(field.queryset.model, (OfStudy, Guideline)):
                checked += 1
                assert isinstance(field, StudyChoiceField) or field.queryset.query.is_empty(), (form, name)
    assert checked > 10
