from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from scoring.api import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("predictions/", views.Predictions.as_view(), name="api-predictions"),
    path("predictions/<int:request_id>/", views.PredictionResult.as_view(), name="api-prediction"),
]
