from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from scoring.api import predictions, scorers

urlpatterns: list[URLPattern | URLResolver] = [
    path("predictions/", predictions.Predictions.as_view(), name="api-predictions"),
    path("predictions/<int:request_id>/", predictions.PredictionResult.as_view(), name="api-prediction"),
    path("manage/scorers/", scorers.Scorers.as_view(), name="api-manage-scorers"),
    path("manage/scorers/-/train/", scorers.TrainScorer.as_view(), name="api-manage-scorer-train"),
    path("manage/scorers/<str:name>/", scorers.ScorerCard.as_view(), name="api-manage-scorer"),
    path(
        "manage/scorers/<str:name>/promote/",
        scorers.PromoteScorer.as_view(),
        name="api-manage-scorer-promote",
    ),
]
