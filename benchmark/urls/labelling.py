from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import labelling

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/<str:name>/label-next/", labelling.label_next_page, name="label-next"),
    path("runs/<str:name>/label-next/batch/", labelling.label_next_batch, name="label-next-batch"),
]
