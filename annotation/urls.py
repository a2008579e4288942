from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from django.views.generic import TemplateView

from annotation.views import (
    account,
    agreement,
    batches,
    charts,
    guidelines,
    jobs,
    lineage,
    members,
    new_batch,
    people,
    releases,
)

later = TemplateView.as_view(template_name="base.html")

urlpatterns: list[URLPattern | URLResolver] = [
    path("charts/<str:key>.svg", charts.chart, name="chart"),
    path("jobs/<int:job_id>/", jobs.job_progress, name="job-progress"),
    path("jobs/<int:job_id>/cancel/", jobs.job_cancel, name="job-cancel"),
    path("", later, name="home"),
    path("work/", later, name="work"),
    path("disputes/", later, name="disputes"),
    path("history/", later, name="history"),
    path("batches/", batches.batches, name="batches"),
    # "-" keeps the words of the product apart from the names that people give.
    path("batches/-/new/", new_batch.batch_dataset, name="batch-dataset"),
    path("batches/-/new/<str:dataset>/", new_batch.batch_new, name="batch-new"),
    path("batches/-/new/<str:dataset>/plan/", new_batch.batch_plan, name="batch-plan"),
    path("batches/<str:name>/", batches.batch, name="batch"),
    path("batches/<str:name>/progress/", batches.batch_progress, name="batch-progress"),
    path("batches/<str:name>/state/", batches.batch_state, name="batch-state"),
    path("batches/<str:name>/close/", batches.batch_close, name="batch-close"),
    path("batches/<str:name>/people/", members.batch_members, name="batch-members"),
    path("batches/<str:name>/people/<str:username>/<str:role>/", members.batch_member, name="batch-member"),
    path("batches/<str:name>/items/", members.batch_items, name="batch-items"),
    path("batches/<str:name>/items/<int:request_id>/", members.correction_handled, name="correction-handled"),
    path("imports/", later, name="imports"),
    path("guidelines/", guidelines.guidelines, name="guidelines"),
    path("guidelines/-/new/", guidelines.guideline_new, name="guideline-new"),
    path("guidelines/<str:name>/<str:version>/", guidelines.guideline, name="guideline"),
    path(
        "guidelines/<str:name>/<str:version>/publish/", guidelines.guideline_publish, name="guideline-publish"
    ),
    path("people/", people.people, name="people"),
    path("people/-/new/", people.person_new, name="person-new"),
    path("people/<str:username>/", people.person, name="person"),
    path("people/<str:username>/groups/", people.person_roles, name="person-roles"),
    path("people/<str:username>/name/", people.person_name, name="person-name"),
    path("people/<str:username>/password/", people.person_password, name="person-password"),
    path("people/<str:username>/token/", people.person_token, name="person-token"),
    path("people/<str:username>/active/", people.person_active, name="person-active"),
    path("account/", account.account, name="account"),
    path("account/name/", account.account_name, name="account-name"),
    path("account/password/", account.account_password, name="account-password"),
    path("account/token/", account.account_token, name="account-token"),
    path("agreement/", agreement.agreement, name="agreement"),
    path("releases/", releases.releases, name="releases"),
    path("releases/-/new/", releases.release_new, name="release-new"),
    path("releases/<str:name>/", releases.release, name="release"),
    path("releases/<str:name>/labels/", releases.release_labels, name="release-labels"),
    path("releases/<str:name>/download/<str:kind>", releases.release_download, name="release-download"),
    path("tasks/<int:pk>/", lineage.task, name="task"),
]
