from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path

from annotation.api import adjudication, annotation_loop, base

urlpatterns: list[URLPattern | URLResolver] = [
    path("batches/", annotation_loop.OwnBatches.as_view(), name="api-batches"),
    path("batches/<str:name>/guideline/", annotation_loop.BatchGuideline.as_view(), name="api-guideline"),
    path("batches/<str:name>/next/", annotation_loop.NextItem.as_view(), name="api-next"),
    path("batches/<str:name>/next-dispute/", adjudication.NextDispute.as_view(), name="api-next-dispute"),
    path("assignments/<uuid:assignment_id>/submit/", annotation_loop.Submit.as_view(), name="api-submit"),
    path("assignments/<uuid:assignment_id>/revise/", annotation_loop.Revise.as_view(), name="api-revise"),
    path("assignments/<uuid:assignment_id>/verdict/", adjudication.GiveVerdict.as_view(), name="api-verdict"),
    path(
        "assignments/<uuid:assignment_id>/adjudicate/",
        adjudication.Adjudicate.as_view(),
        name="api-adjudicate",
    ),
    path("assignments/<uuid:assignment_id>/skip/", annotation_loop.Skip.as_view(), name="api-skip"),
    path("assignments/<uuid:assignment_id>/release/", annotation_loop.Release.as_view(), name="api-release"),
    path("assignments/<uuid:assignment_id>/extend/", annotation_loop.Extend.as_view(), name="api-extend"),
    path("manage/", include("annotation.api.manage.urls")),
    re_path("", base.ApiNotFound.as_view(), name="api-nowhere"),
]
