"""The pages of the benchmark. What has a fixed word after ``runs/`` comes before the names of runs."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

from benchmark.urls import choices, collecting, judges, labelling, runs, showing

urlpatterns: list[URLPattern | URLResolver] = [
    *collecting.urlpatterns,
    *judges.urlpatterns,
    *choices.urlpatterns,
    *labelling.urlpatterns,
    *showing.urlpatterns,
    *runs.urlpatterns,
]
