from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from django.views.generic import TemplateView

from annotation.views import charts, jobs

later = TemplateView.as_view(template_name="base.html")

urlpatterns: list[URLPattern | URLResolver] = [
    path("charts/<str:key>.svg", charts.chart, name="chart"),
    path("jobs/<int:job_id>/", jobs.job_progress, name="job-progress"),
    path("jobs/<int:job_id>/cancel/", jobs.job_cancel, name="job-cancel"),
    path("", later, name="home"),
    path("work/", later, name="work"),
    path("disputes/", later, name="disputes"),
    path("history/", later, name="history"),
    path("batches/", later, name="batches"),
    path("imports/", later, name="imports"),
    path("guidelines/", later, name="guidelines"),
    path("people/", later, name="people"),
    path("agreement/", later, name="agreement"),
    path("releases/", later, name="releases"),
]
