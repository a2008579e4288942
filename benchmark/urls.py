from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from django.views.generic import TemplateView

later = TemplateView.as_view(template_name="base.html")

urlpatterns: list[URLPattern | URLResolver] = [path("runs/", later, name="runs")]
