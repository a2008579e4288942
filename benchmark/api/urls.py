from __future__ import annotations

from django.urls import URLPattern, path

from benchmark.api import leaderboards

urlpatterns: list[URLPattern] = [
    path("manage/runs/", leaderboards.Runs.as_view(), name="api-manage-runs"),
    path("manage/runs/-/start/", leaderboards.StartRun.as_view(), name="api-manage-run-start"),
    path("manage/runs/<str:name>/", leaderboards.RunState.as_view(), name="api-manage-run"),
    path("manage/runs/<str:name>/board/", leaderboards.Board.as_view(), name="api-manage-board"),
]
