from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from scoring.api import predictions

urlpatterns: list[URLPattern | URLResolver] = [
    path("predictions/", predictions.Predictions.as_view(), name="api-predictions"),
    path("predictions/<int:request_id>/", predictions.PredictionResult.as_view(), name="api-prediction"),
]
