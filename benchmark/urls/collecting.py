from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import collecting

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/-/collecting/", collecting.collectings, name="collecting"),
    path("runs/-/collecting/new/", collecting.new_collecting, name="collecting-new"),
    path("runs/-/collecting/<str:number>/", collecting.collecting_run, name="collecting-run"),
    path(
        "runs/-/collecting/<str:number>/progress/", collecting.collecting_progress, name="collecting-progress"
    ),
    path("runs/-/collecting/<str:number>/again/", collecting.collecting_again, name="collecting-again"),
]
