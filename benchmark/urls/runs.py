from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import cells, exports, retrainings, runs

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/", runs.runs, name="runs"),
    path("runs/-/new/", runs.new_run, name="new-run"),
    path("runs/<str:name>/", runs.run, name="run"),
    path("runs/<str:name>/export/", exports.export, name="run-export"),
    path("runs/<str:name>/cell/", cells.cell, name="run-cell"),
    path("runs/<str:name>/items/<int:item_id>/", cells.item, name="run-item"),
    path("runs/-/retrain/<str:release>/", retrainings.retrain, name="retrain"),
    path("runs/-/retrainings/<int:retraining_id>/", retrainings.retraining, name="retraining"),
]
