from __future__ import annotations

from django.urls import URLPattern, path

from annotation.api.manage import (
    agreement,
    batches,
    datasets,
    guidelines,
    imports,
    jobs,
    people,
    releases,
    studies,
)

urlpatterns: list[URLPattern] = [
    path("studies/", studies.Studies.as_view(), name="api-manage-studies"),
    path("guidelines/", guidelines.Guidelines.as_view(), name="api-manage-guidelines"),
    path("guidelines/-/load/", guidelines.LoadGuideline.as_view(), name="api-manage-guideline-load"),
    path(
        "guidelines/<str:name>/<str:version>/",
        guidelines.ReadGuideline.as_view(),
        name="api-manage-guideline",
    ),
    path(
        "guidelines/<str:name>/<str:version>/publish/",
        guidelines.PublishGuideline.as_view(),
        name="api-manage-guideline-publish",
    ),
    path("datasets/", datasets.Datasets.as_view(), name="api-manage-datasets"),
    path("datasets/<str:name>/", datasets.DatasetContent.as_view(), name="api-manage-dataset"),
    path("imports/", imports.Imports.as_view(), name="api-manage-imports"),
    path("imports/-/upload/", imports.Upload.as_view(), name="api-manage-import-upload"),
    path("imports/<int:import_id>/", imports.ImportState.as_view(), name="api-manage-import"),
    path(
        "imports/<int:import_id>/preview/",
        imports.PreviewImport.as_view(),
        name="api-manage-import-preview",
    ),
    path(
        "imports/<int:import_id>/confirm/",
        imports.ConfirmImport.as_view(),
        name="api-manage-import-confirm",
    ),
    path("people/", people.People.as_view(), name="api-manage-people"),
    path("people/-/add/", people.AddPerson.as_view(), name="api-manage-person-add"),
    path("people/-/member/", people.TakeMember.as_view(), name="api-manage-member-add"),
    path("people/<str:username>/roles/", people.SetRoles.as_view(), name="api-manage-person-roles"),
    path("batches/", batches.Batches.as_view(), name="api-manage-batches"),
    path("batches/-/create/", batches.CreateBatch.as_view(), name="api-manage-batch-create"),
    path("batches/<str:name>/", batches.BatchState.as_view(), name="api-manage-batch"),
    path("batches/<str:name>/state/", batches.SetBatchState.as_view(), name="api-manage-batch-state"),
    path("batches/<str:name>/members/", batches.BatchMembers.as_view(), name="api-manage-batch-members"),
    path("batches/<str:name>/members/-/join/", batches.JoinBatch.as_view(), name="api-manage-batch-join"),
    path(
        "batches/<str:name>/members/<str:username>/<str:role>/",
        batches.SetMemberActive.as_view(),
        name="api-manage-batch-member",
    ),
    path("agreement/", agreement.AgreementReport.as_view(), name="api-manage-agreement"),
    path("releases/", releases.Releases.as_view(), name="api-manage-releases"),
    path("releases/-/cut/", releases.CutRelease.as_view(), name="api-manage-release-cut"),
    path("releases/<str:name>/", releases.ReleaseManifest.as_view(), name="api-manage-release"),
    path("releases/<str:name>/exports/", releases.Exports.as_view(), name="api-manage-exports"),
    path(
        "releases/<str:name>/exports/-/start/",
        releases.StartExport.as_view(),
        name="api-manage-export-start",
    ),
    path(
        "releases/<str:name>/exports/<int:export_id>/",
        releases.ExportState.as_view(),
        name="api-manage-export",
    ),
    path(
        "releases/<str:name>/exports/<int:export_id>/files/<path:file>",
        releases.ExportFile.as_view(),
        name="api-manage-export-file",
    ),
    path("jobs/<int:job_id>/", jobs.JobState.as_view(), name="api-manage-job"),
    path("jobs/<int:job_id>/cancel/", jobs.CancelJob.as_view(), name="api-manage-job-cancel"),
]
