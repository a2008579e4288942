"""The pages of the benchmark. What has a fixed word after ``runs/`` comes before the names of runs."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from benchmark.views import (
    collection,
    dialogues,
    estimates,
    pipeline,
    preferences,
    published_tables,
    sharing,
)
from benchmark.views.judges import correlations, judges
from benchmark.views.leaderboards import cells, matrix, runs
from benchmark.views.leaderboards.reports import exports
from benchmark.views.multiple_choice import comparison, reports
from benchmark.views.multiple_choice import exports as multiple_choice_exports
from benchmark.views.workbench import bench, board, campaigns, methods, proposals, reviews, settings

urlpatterns: list[URLPattern | URLResolver] = [
    path("pipeline/", pipeline.pipeline, name="pipeline"),
    path("data/-/dialogues/", dialogues.dialogue_runs, name="dialogue-runs"),
    path("data/-/dialogues/new/", dialogues.new_dialogue_run, name="dialogue-run-new"),
    path("data/-/dialogues/<str:number>/", dialogues.dialogue_run, name="dialogue-run"),
    path("data/-/dialogues/<str:number>/progress/", dialogues.dialogue_progress, name="dialogue-progress"),
    path("data/-/dialogues/<str:number>/again/", dialogues.dialogue_resume, name="dialogue-again"),
    path("data/-/dialogues/<str:number>/cards/<str:prompt>/", dialogues.dialogue, name="dialogue"),
    path(
        "data/-/dialogues/<str:number>/cards/<str:prompt>/turns/",
        dialogues.dialogue_turns,
        name="dialogue-turns",
    ),
    path("runs/-/collection/", collection.collections, name="collecting"),
    path("runs/-/collection/new/", collection.new_collection, name="collecting-new"),
    path("runs/-/collection/<str:number>/", collection.collection_run, name="collecting-run"),
    path(
        "runs/-/collection/<str:number>/progress/", collection.collection_progress, name="collecting-progress"
    ),
    path("runs/-/collection/<str:number>/again/", collection.collection_resume, name="collecting-again"),
    path("runs/-/judges/", judges.judges, name="judges"),
    path("runs/-/judges/new/", judges.new_judge, name="judge-new"),
    path("runs/-/judges/judge/<name:name>/", judges.judge, name="judge"),
    path("runs/-/judges/judge/<name:name>/archive/", judges.archive_judge, name="judge-archive"),
    path("runs/-/judges/judge/<name:name>/title/", judges.title_judge, name="judge-title"),
    path("runs/-/judges/judge/<name:name>/ask/", judges.ask, name="judge-ask"),
    path("runs/-/judges/judgings/<int:judging_id>/again/", judges.resume, name="judge-ask-on"),
    path("runs/-/judges/templates/<str:name>/", judges.template, name="judge-template"),
    path("runs/-/judges/templates/<str:name>/save/", judges.save, name="judge-template-save"),
    path("runs/-/judges/comparison/<str:name>/", judges.compare, name="judge-comparison"),
    path(
        "runs/-/judges/comparison/<str:name>/correlations/",
        correlations.correlations,
        name="judge-correlations",
    ),
    path("runs/-/comparisons/", preferences.preference_boards, name="preference-boards"),
    path("runs/-/comparisons/<str:name>/", preferences.preference_board, name="preference-board"),
    path("runs/-/across/", matrix.matrix, name="board-matrix"),
    path("runs/-/multiple-choice/", reports.reports, name="choice-reports"),
    path("runs/-/multiple-choice/-/new/", reports.new_report, name="choice-report-new"),
    path("runs/-/multiple-choice/<str:name>/", reports.report, name="choice-report"),
    path("runs/-/multiple-choice/<str:name>/archive/", reports.archive_report, name="choice-report-archive"),
    path("runs/-/multiple-choice/<str:name>/title/", reports.title_report, name="choice-report-title"),
    path("runs/-/multiple-choice/<str:name>/answers/", reports.model_page, name="choice-report-model"),
    path("runs/-/multiple-choice/<str:name>/comparison/", comparison.compare, name="choice-comparison"),
    path("runs/-/multiple-choice/<str:name>/batch/", reports.batch, name="choice-report-batch"),
    path(
        "runs/-/multiple-choice/<str:name>/export/<str:kind>/",
        multiple_choice_exports.export,
        name="choice-report-export",
    ),
    path("runs/<str:name>/label-plan/", estimates.label_plan_page, name="label-next"),
    path("runs/<str:name>/label-plan/batch/", estimates.label_plan_batch, name="label-next-batch"),
    path("runs/-/published/", published_tables.published_tables, name="published-tables"),
    path("runs/-/published/new/", published_tables.published_new, name="published-new"),
    path("runs/-/published/<int:table_id>/", published_tables.published_table, name="published-table"),
    path(
        "runs/-/published/<int:table_id>/archive/", published_tables.archive_table, name="published-archive"
    ),
    path("runs/-/published/<int:table_id>/title/", published_tables.title_table, name="published-title"),
    path(
        "runs/-/published/<int:table_id>/dataset/",
        published_tables.published_dataset,
        name="published-dataset",
    ),
    path(
        "runs/-/published/<int:table_id>/remove/", published_tables.published_remove, name="published-remove"
    ),
    path("runs/<str:name>/sensitivity/", runs.sensitivity, name="run-sensitivity"),
    path("runs/<str:name>/again/", runs.rerun, name="run-again"),
    path("runs/<str:name>/links/", sharing.run_links, name="run-links"),
    path("runs/<str:name>/links/new/", sharing.run_share, name="run-share"),
    path("runs/<str:name>/links/<int:link_id>/revoke/", sharing.run_link_revoke, name="run-link-revoke"),
    path("shared/<str:token>/", sharing.shared, name="shared"),
    path("shared/<str:token>/<str:language>/", sharing.shared, name="shared-in"),
    path("shared/<str:token>/charts/<str:proof>/<str:key>.svg", sharing.shared_chart, name="shared-chart"),
    path("runs/", runs.runs, name="runs"),
    path("runs/-/new/", runs.new_run, name="new-run"),
    path("runs/<str:name>/", runs.run, name="run"),
    path("runs/<str:name>/export/", exports.export, name="run-export"),
    path("runs/<str:name>/cell/", cells.cell, name="run-cell"),
    path("runs/<str:name>/items/<int:item_id>/", cells.item, name="run-item"),
    path("runs/-/retrain/<str:release>/", runs.retrain, name="retrain"),
    path("runs/-/retrainings/<int:retraining_id>/", runs.retraining, name="retraining"),
    path("campaigns/", campaigns.campaigns, name="campaigns"),
    path("campaigns/-/new/", campaigns.new_campaign, name="campaign-new"),
    path("campaigns/-/methods/", methods.methods, name="attack-methods"),
    path("campaigns/-/methods/save/", methods.save_method, name="attack-method-save"),
    path("campaigns/-/reviews/<uuid:review_id>/", reviews.review, name="campaign-review"),
    path("campaigns/-/reviews/<uuid:review_id>/judge/", reviews.judge, name="campaign-review-judge"),
    path("campaigns/-/reviews/<uuid:review_id>/decide/", reviews.decide, name="campaign-review-decide"),
    path("campaigns/-/reviews/<uuid:review_id>/release/", reviews.release, name="campaign-review-release"),
    path("campaigns/-/answers/<uuid:attempt_id>/levels/", bench.levels, name="bench-levels"),
    path("campaigns/-/bench/<uuid:proposal_id>/draft/", bench.draft, name="bench-draft"),
    path("campaigns/-/bench/<uuid:proposal_id>/ask/", bench.ask, name="bench-ask"),
    path("campaigns/-/bench/<uuid:proposal_id>/attempts/", bench.attempts, name="bench-attempts"),
    path("campaigns/-/bench/<uuid:proposal_id>/near/", bench.near, name="bench-near"),
    path("campaigns/-/bench/<uuid:proposal_id>/submit/", bench.submit, name="bench-submit"),
    path("campaigns/-/bench/<uuid:proposal_id>/discard/", bench.discard, name="bench-discard"),
    path("campaigns/<name:name>/", board.campaign, name="campaign"),
    path("campaigns/<name:name>/proposals/", proposals.proposals, name="campaign-proposals"),
    path("campaigns/<name:name>/proposals/<uuid:proposal_id>/", proposals.proposal, name="campaign-proposal"),
    path("campaigns/<name:name>/settings/", settings.settings, name="campaign-settings"),
    path("campaigns/<name:name>/settings/state/", settings.set_campaign_state, name="campaign-state"),
    path("campaigns/<name:name>/settings/members/", settings.add_campaign_members, name="campaign-members"),
    path(
        "campaigns/<name:name>/settings/members/remove/",
        settings.remove_campaign_member,
        name="campaign-member-remove",
    ),
    path("campaigns/<name:name>/settings/quota/", settings.set_campaign_quota, name="campaign-quota"),
    path("campaigns/<name:name>/batch/", campaigns.batch, name="campaign-batch"),
    path("campaigns/<name:name>/export/<str:kind>/", campaigns.export, name="campaign-export"),
    path("campaigns/<name:name>/bench/", bench.bench, name="bench"),
    path("campaigns/<name:name>/bench/join/", bench.join, name="bench-join"),
    path("campaigns/<name:name>/bench/new/", bench.new, name="bench-new"),
    path("campaigns/<name:name>/bench/<uuid:proposal_id>/", bench.proposal, name="bench-proposal"),
    path("campaigns/<name:name>/reviews/", reviews.reviews, name="campaign-reviews"),
    path("campaigns/<name:name>/reviews/next/", reviews.claim, name="campaign-review-next"),
]
