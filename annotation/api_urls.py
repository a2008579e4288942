from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, re_path

from annotation.api import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("batches/", views.Batches.as_view(), name="api-batches"),
    path("batches/<str:name>/guideline/", views.BatchGuideline.as_view(), name="api-guideline"),
    path("batches/<str:name>/next/", views.Next.as_view(), name="api-next"),
    path("batches/<str:name>/next-dispute/", views.NextDispute.as_view(), name="api-next-dispute"),
    path("assignments/<uuid:assignment_id>/submit/", views.Submit.as_view(), name="api-submit"),
    path("assignments/<uuid:assignment_id>/revise/", views.Revise.as_view(), name="api-revise"),
    path("assignments/<uuid:assignment_id>/verdict/", views.GiveVerdict.as_view(), name="api-verdict"),
    path("assignments/<uuid:assignment_id>/adjudicate/", views.Adjudicate.as_view(), name="api-adjudicate"),
    path("assignments/<uuid:assignment_id>/skip/", views.Skip.as_view(), name="api-skip"),
    path("assignments/<uuid:assignment_id>/release/", views.Release.as_view(), name="api-release"),
    path("assignments/<uuid:assignment_id>/extend/", views.Extend.as_view(), name="api-extend"),
    re_path("", views.Nowhere.as_view(), name="api-nowhere"),
]
