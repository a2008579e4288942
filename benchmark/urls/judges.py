from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import judges

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/-/judges/", judges.judges, name="judges"),
    path("runs/-/judges/new/", judges.new_judge, name="judge-new"),
    path("runs/-/judges/judge/<str:name>/", judges.judge, name="judge"),
    path("runs/-/judges/judge/<str:name>/ask/", judges.ask, name="judge-ask"),
    path("runs/-/judges/judgings/<int:judging_id>/again/", judges.ask_on, name="judge-ask-on"),
    path("runs/-/judges/templates/<str:name>/", judges.template, name="judge-template"),
    path("runs/-/judges/templates/<str:name>/save/", judges.save, name="judge-template-save"),
    path("runs/-/judges/comparison/<str:name>/", judges.compare, name="judge-comparison"),
]
