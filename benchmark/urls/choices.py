from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import choice_exports, choices

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/-/multiple-choice/", choices.reports, name="choice-reports"),
    path("runs/-/multiple-choice/-/new/", choices.new_report, name="choice-report-new"),
    path("runs/-/multiple-choice/<str:name>/", choices.report, name="choice-report"),
    path("runs/-/multiple-choice/<str:name>/answers/", choices.model_page, name="choice-report-model"),
    path("runs/-/multiple-choice/<str:name>/batch/", choices.batch, name="choice-report-batch"),
    path(
        "runs/-/multiple-choice/<str:name>/export/<str:kind>/",
        choice_exports.export,
        name="choice-report-export",
    ),
]
