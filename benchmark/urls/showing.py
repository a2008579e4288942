"""Links for outsiders, published tables, and a run once more."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import again, published, sharing

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/-/published/", published.published_tables, name="published-tables"),
    path("runs/-/published/new/", published.published_new, name="published-new"),
    path("runs/-/published/<int:table_id>/", published.published_table, name="published-table"),
    path("runs/-/published/<int:table_id>/dataset/", published.published_dataset, name="published-dataset"),
    path("runs/-/published/<int:table_id>/remove/", published.published_remove, name="published-remove"),
    path("runs/<str:name>/again/", again.run_again, name="run-again"),
    path("runs/<str:name>/links/", sharing.run_links, name="run-links"),
    path("runs/<str:name>/links/new/", sharing.run_share, name="run-share"),
    path("runs/<str:name>/links/<int:link_id>/revoke/", sharing.run_link_revoke, name="run-link-revoke"),
    path("shared/<str:token>/", sharing.shared, name="shared"),
    path("shared/<str:token>/<str:language>/", sharing.shared, name="shared-in"),
    path("shared/<str:token>/charts/<str:proof>/<str:key>.svg", sharing.shared_chart, name="shared-chart"),
]
