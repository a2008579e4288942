from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from scoring.views import regression_cases
from scoring.views.scorers import actions, page, scorers

urlpatterns: list[URLPattern | URLResolver] = [
    path("scorers/", scorers.scorers, name="scorers"),
    # "-" keeps the words of the product apart from the names that people give.
    path("scorers/-/new/", scorers.scorer_new, name="scorer-new"),
    path("scorers/-/regression-cases/<str:guideline>/", regression_cases.must_fail, name="must-fail"),
    path(
        "scorers/-/regression-cases/<str:guideline>/add/",
        regression_cases.must_fail_add,
        name="must-fail-add",
    ),
    path(
        "scorers/-/regression-cases/<str:guideline>/import/",
        regression_cases.must_fail_import,
        name="must-fail-import",
    ),
    path(
        "scorers/-/regression-cases/<str:guideline>/<int:item_id>/remove/",
        regression_cases.must_fail_remove,
        name="must-fail-remove",
    ),
    path("scorers/<str:name>/", page.scorer, name="scorer"),
    path("scorers/<str:name>/promote/", actions.scorer_promote, name="scorer-promote"),
    path("scorers/<str:name>/reason/", actions.scorer_reason, name="scorer-reason"),
    path("scorers/<str:name>/back/", actions.scorer_back, name="scorer-back"),
    path("scorers/<str:name>/export/", actions.scorer_export, name="scorer-export"),
    path("scorers/<str:name>/drift/", actions.scorer_drift, name="scorer-drift"),
    path("scorers/<str:name>/score/", actions.scorer_score, name="scorer-score"),
    path("scorers/<str:name>/abstained/", actions.scorer_abstained, name="scorer-abstained"),
]
