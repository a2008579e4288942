from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from scoring.views import acting, must_fail, page, scorers

urlpatterns: list[URLPattern | URLResolver] = [
    path("scorers/", scorers.scorers, name="scorers"),
    # "-" keeps the words of the product apart from the names that people give.
    path("scorers/-/new/", scorers.scorer_new, name="scorer-new"),
    path("scorers/-/must-fail/<str:guideline>/", must_fail.must_fail, name="must-fail"),
    path("scorers/-/must-fail/<str:guideline>/add/", must_fail.must_fail_add, name="must-fail-add"),
    path("scorers/-/must-fail/<str:guideline>/import/", must_fail.must_fail_import, name="must-fail-import"),
    path(
        "scorers/-/must-fail/<str:guideline>/<int:item_id>/remove/",
        must_fail.must_fail_remove,
        name="must-fail-remove",
    ),
    path("scorers/<str:name>/", page.scorer, name="scorer"),
    path("scorers/<str:name>/promote/", acting.scorer_promote, name="scorer-promote"),
    path("scorers/<str:name>/back/", acting.scorer_back, name="scorer-back"),
    path("scorers/<str:name>/export/", acting.scorer_export, name="scorer-export"),
    path("scorers/<str:name>/drift/", acting.scorer_drift, name="scorer-drift"),
    path("scorers/<str:name>/score/", acting.scorer_score, name="scorer-score"),
    path("scorers/<str:name>/abstained/", acting.scorer_abstained, name="scorer-abstained"),
]
