from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from scoring.views import scorers

urlpatterns: list[URLPattern | URLResolver] = [
    path("scorers/", scorers.scorers, name="scorers"),
    # "-" keeps the words of the product apart from the names that people give.
    path("scorers/-/new/", scorers.scorer_new, name="scorer-new"),
    path("scorers/<str:name>/", scorers.scorer, name="scorer"),
]
