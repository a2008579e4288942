"""The verbs of ``annotation`` in the audit trail, and the kinds of their targets."""

from __future__ import annotations

from annotation.core.errors import N_
from annotation.domain.audit import Category, Meaning, TargetKind, Verb, register_kinds

register_kinds(
    TargetKind("person", N_("person {key}"), "annotation.Person", "username", page="person"),
    TargetKind("sign_in", N_("an unknown name")),
    TargetKind("token", N_("an unknown token")),
    TargetKind("mail", N_("mail {key}")),
    TargetKind("provider", N_("the provider {key}")),
    TargetKind("invitation", N_("invitation {key}"), "annotation.Invitation", study="study"),
    TargetKind("study", N_("study {key}"), "annotation.Study", "name", study="pk"),
    TargetKind("care", N_("the limits of exposure")),
    TargetKind("dispute_reason", N_("reason {key}"), "annotation.DisputeReason", "key"),
    TargetKind("guideline", N_("guideline {key}")),
    TargetKind("dataset", N_("dataset {key}"), "annotation.Dataset", "name", "study", "dataset"),
    TargetKind("slates", N_("slates {key}")),
    TargetKind("import", N_("import {key}"), "annotation.Import", study="study", page="import-report"),
    TargetKind("batch", N_("batch {key}"), "annotation.Batch", "name", "study", "batch"),
    TargetKind("task", N_("task {key}"), "annotation.Task", study="batch__study", page="task"),
    TargetKind("assignment", N_("assignment {key}"), "annotation.Assignment", study="batch__study"),
    TargetKind("release", N_("release {key}"), "annotation.GoldRelease", "name", "study", "release"),
    TargetKind("goldrelease", N_("release {key}"), "annotation.GoldRelease", "name", "study", "release"),
    TargetKind("job", N_("job {key}"), "annotation.Job", study="study"),
    TargetKind("webhook", N_("webhook {key}"), "annotation.WebhookEndpoint", study="study", page="webhook"),
    TargetKind("page", N_("page {key}")),
    TargetKind("audit", N_("the audit trail")),
    TargetKind("site", N_("the site")),
    TargetKind("admin", N_("{key}")),
)

# Rows of lists, which are archived and shared by one code (annotation/services/lists.py): as the models are named.
LISTED = (
    "dataset",
    "batch",
    "goldrelease",
    "scorer",
    "benchmarkrun",
    "judge",
    "publishedtable",
    "choicereport",
    "campaign",
)


def _account(sentence: str, *targets: str) -> Meaning:
    return Meaning(Category.ACCOUNTS, sentence, targets or ("person",), is_of_site=True, is_blind_safe=True)


def _person(sentence: str, *, is_blind_safe: bool = True) -> Meaning:
    return Meaning(Category.PEOPLE, sentence, ("person",), is_blind_safe=is_blind_safe)


def _batch(sentence: str, *, is_blind_safe: bool = True) -> Meaning:
    return Meaning(Category.BATCHES, sentence, ("batch",), is_blind_safe=is_blind_safe)


def _labelling(sentence: str, *targets: str) -> Meaning:
    return Meaning(Category.LABELLING, sentence, targets)


def _reading(sentence: str, *targets: str, is_blind_safe: bool = False) -> Meaning:
    return Meaning(Category.READING, sentence, targets, is_blind_safe=is_blind_safe)


def _site(sentence: str, *targets: str, is_of_site: bool = False) -> Meaning:
    return Meaning(Category.SITE, sentence, targets, is_of_site=is_of_site, is_blind_safe=True)


class AnnotationVerb(Verb):
    # Accounts.
    SIGN_IN = "sign_in", _account(N_("{actor} signed in"))
    SIGN_OUT = "sign_out", _account(N_("{actor} signed out"))
    SIGN_IN_FAILED = "sign_in_failed", _account(N_("A sign-in as {target} failed"), "person", "sign_in")
    SIGN_IN_THROTTLED = (
        "sign_in_throttled",
        _account(N_("Sign-ins as {target} were refused: too many attempts"), "person", "sign_in"),
    )
    REVOKE_SESSION = "revoke_session", _account(N_("{actor} ended sessions of {target}"))
    DEMAND_FACTOR = "demand_factor", _account(N_("A second factor was required of {target}"))
    ADD_FACTOR = "add_factor", _account(N_("{actor} added a second factor to the account of {target}"))
    REMOVE_FACTOR = "remove_factor", _account(N_("{actor} removed a second factor of {target}"))
    RESET_FACTORS = "reset_factors", _account(N_("{actor} removed every second factor of {target}"))
    MAKE_RECOVERY_CODES = "make_recovery_codes", _account(N_("{actor} made recovery codes for {target}"))
    USE_RECOVERY_CODE = "use_recovery_code", _account(N_("{target} signed in by a recovery code"))
    FACTOR_FAILED = "factor_failed", _account(N_("A second factor of {target} was wrong"))
    LINK_PROVIDER = "link_provider", _account(N_("{actor} linked {target} to an account of a provider"))
    UNLINK_PROVIDER = (
        "unlink_provider",
        _account(N_("{actor} unlinked {target} from an account at a provider")),
    )
    PROVIDER_REFUSED = "provider_refused", _account(N_("A sign-in by {target} was refused"), "provider")
    PROVIDER_ENDED = "provider_ended", _account(N_("The provider ended a session of {target}"))
    ALLOW_PASSWORD = "allow_password", _account(N_("{target} may sign in by password for a while"))
    TOKEN_REFUSED = "token_refused", _account(N_("A request with {target} was refused"), "token")
    SET_PASSWORD = "set_password", _account(N_("The password of {target} was set, by {actor}"))
    MAKE_TOKEN = "make_token", _account(N_("{actor} made an API token for {target}"))
    REVOKE_TOKEN = "revoke_token", _account(N_("{actor} revoked an API token of {target}"))
    END_TOKENS = "end_tokens", _account(N_("The API tokens of {target} ended"))
    MAKE_SETUP_LINK = "make_setup_link", _account(N_("{actor} made a set-up link for {target}"))
    USE_SETUP_LINK = "use_setup_link", _account(N_("{actor} used the set-up link of {target}"))
    REVOKE_SETUP_LINK = "revoke_setup_link", _account(N_("{actor} revoked the set-up link of {target}"))
    ASK_PASSWORD_RESET = (
        "ask_password_reset",
        _account(N_("Somebody asked for a new password by {target}"), "mail"),
    )
    SEND_PASSWORD_RESET = (
        "send_password_reset",
        _account(N_("A link to set a new password was made for the mail address of {target}")),
    )
    ASK_MAIL_ADDRESS = "ask_mail_address", _account(N_("{actor} entered a new mail address of {target}"))
    SET_MAIL_ADDRESS = "set_mail_address", _account(N_("{actor} confirmed the mail address of {target}"))
    REMOVE_MAIL_ADDRESS = (
        "remove_mail_address",
        _account(N_("{actor} removed the mail address of {target}")),
    )
    STOP_MAIL = "stop_mail", _account(N_("Mails of one kind to {target} were stopped by the link in one"))

    # People.
    ADD_PERSON = "add_person", _person(N_("{actor} added {target}"), is_blind_safe=False)
    SET_ROLES = "set_roles", _person(N_("{actor} set the roles of {target}"))
    MAP_ROLES = "map_roles", _person(N_("The groups of a provider set the roles of {target}"))
    SET_DISPLAY_NAME = "set_display_name", _person(N_("{actor} set the name shown of {target}"))
    SET_LANGUAGES = "set_languages", _person(N_("{actor} set the languages of {target}"))
    SET_OWN_MODELS = (
        "set_own_models",
        _person(N_("{actor} set the models that {target} works on"), is_blind_safe=False),
    )
    SET_OPTED_OUT = "set_opted_out", _person(N_("{actor} set the topics that {target} does not read"))
    SET_DAILY_EXPOSURE = (
        "set_daily_exposure",
        _person(N_("{actor} set the daily limit of exposure of {target}")),
    )
    DEACTIVATE = "deactivate", _person(N_("{actor} deactivated {target}"))
    ACTIVATE = "activate", _person(N_("{actor} activated {target}"))
    ERASE_PERSON = (
        "erase_person",
        _account(N_("{actor} erased a person, who is {target} from then on")),
    )
    INVITE = "invite", Meaning(Category.PEOPLE, N_("{actor} made {target}"), ("invitation",), False, True)
    SEND_INVITATION = (
        "send_invitation",
        Meaning(Category.PEOPLE, N_("{actor} sent {target} by mail"), ("invitation",), False, True),
    )
    ACCEPT_INVITATION = (
        "accept_invitation",
        Meaning(Category.PEOPLE, N_("{actor} accepted {target}"), ("invitation",), False, True),
    )
    REVOKE_INVITATION = (
        "revoke_invitation",
        Meaning(Category.PEOPLE, N_("{actor} revoked {target}"), ("invitation",), False, True),
    )

    # Guidelines.
    LOAD_GUIDELINE = (
        "load_guideline",
        Meaning(Category.GUIDELINES, N_("{actor} loaded {target}"), ("guideline",), False, True),
    )
    PUBLISH_GUIDELINE = (
        "publish_guideline",
        Meaning(Category.GUIDELINES, N_("{actor} published {target}"), ("guideline",), False, True),
    )
    RESOLVE_NOTE = (
        "resolve_note",
        Meaning(Category.GUIDELINES, N_("{actor} resolved a note on {target}"), ("guideline",)),
    )
    REOPEN_NOTE = (
        "reopen_note",
        Meaning(Category.GUIDELINES, N_("{actor} reopened a note on {target}"), ("guideline",)),
    )
    ADD_DISPUTE_REASON = "add_dispute_reason", _site(N_("{actor} added the {target}"), "dispute_reason")
    CHANGE_DISPUTE_REASON = (
        "change_dispute_reason",
        _site(N_("{actor} changed the {target}"), "dispute_reason"),
    )
    MOVE_DISPUTE_REASON = "move_dispute_reason", _site(N_("{actor} moved the {target}"), "dispute_reason")
    RETIRE_DISPUTE_REASON = (
        "retire_dispute_reason",
        _site(N_("{actor} retired the {target}"), "dispute_reason"),
    )
    RESTORE_DISPUTE_REASON = (
        "restore_dispute_reason",
        _site(N_("{actor} restored the {target}"), "dispute_reason"),
    )

    # Data.
    UPLOAD = "upload", Meaning(Category.DATA, N_("{actor} uploaded a file: {target}"), ("import",))
    DISCARD_UPLOAD = "discard_upload", Meaning(Category.DATA, N_("{actor} discarded {target}"), ("import",))
    IMPORT_PROMPTS = (
        "import_prompts",
        Meaning(Category.DATA, N_("{actor} imported prompts into {target}"), ("dataset",)),
    )
    IMPORT_RESPONSES = (
        "import_responses",
        Meaning(Category.DATA, N_("{actor} imported responses into {target}"), ("dataset",)),
    )
    IMPORT_ANNOTATIONS = (
        "import_annotations",
        Meaning(Category.DATA, N_("{actor} imported labels into {target}"), ("batch",)),
    )
    MAKE_SLATES = "make_slates", Meaning(Category.DATA, N_("{actor} made {target}"), ("slates",))
    DELETE = "delete", Meaning(Category.DATA, N_("{actor} deleted {target}"), ("dataset",))
    MOVE = "move", Meaning(Category.DATA, N_("{actor} moved {target} to another study"), ("dataset",))
    SHARE = "share", Meaning(Category.DATA, N_("{actor} shared {target} with another study"), LISTED)
    END_SHARING = (
        "end_sharing",
        Meaning(Category.DATA, N_("{actor} ended the sharing of {target} with another study"), LISTED),
    )
    ARCHIVE = "archive", Meaning(Category.DATA, N_("{actor} archived {target}"), LISTED)
    RESTORE = "restore", Meaning(Category.DATA, N_("{actor} restored {target}"), LISTED)
    SET_TITLE = "set_title", Meaning(Category.DATA, N_("{actor} set the title of {target}"), LISTED)

    # Batches.
    CREATE_BATCH = "create_batch", _batch(N_("{actor} made {target}"))
    BATCH_DRAFT = "batch_draft", _batch(N_("{actor} made {target} a draft again"))
    BATCH_OPEN = "batch_open", _batch(N_("{actor} opened {target}"))
    BATCH_PAUSED = "batch_paused", _batch(N_("{actor} paused {target}"))
    BATCH_CLOSED = "batch_closed", _batch(N_("{actor} closed {target}"))
    CONFIRM_CLOSING = "confirm_closing", _batch(N_("{actor} confirmed the closing of {target}"))
    END_COLLECTION = "end_collection", _batch(N_("{actor} ended the labelling of {target}"))
    JOIN_BATCH = "join_batch", _batch(N_("{actor} added people to {target}"))
    JOIN_BATCH_REFUSED = (
        "join_batch_refused",
        _batch(N_("{actor}, who was invited, could not join {target}"), is_blind_safe=False),
    )
    MEMBER_LEAVES = "member_leaves", _batch(N_("{actor} took somebody out of {target}"))
    MEMBER_RETURNS = "member_returns", _batch(N_("{actor} brought somebody back into {target}"))
    SET_LIMITS = "set_limits", _batch(N_("{actor} set the limits of somebody in {target}"))
    SET_TERMS = "set_terms", _batch(N_("{actor} changed the policy of {target}"))
    ASSIGN_TASKS = "assign_tasks", _batch(N_("{actor} assigned tasks of {target}"), is_blind_safe=False)
    WITHDRAW_TASKS = (
        "withdraw_tasks",
        _batch(N_("{actor} withdrew tasks of {target}"), is_blind_safe=False),
    )
    BRING_TASKS_BACK = (
        "bring_tasks_back",
        _batch(N_("{actor} brought tasks of {target} back"), is_blind_safe=False),
    )
    SET_PRIORITY = (
        "set_priority",
        _batch(N_("{actor} set the priority of tasks of {target}"), is_blind_safe=False),
    )
    QUALIFICATION_ENDED = (
        "qualification_ended",
        _batch(N_("A qualification attempt for {target} ended"), is_blind_safe=False),
    )
    QUALIFICATION_WAIVED = (
        "qualification_waived",
        _batch(N_("{actor} waived a qualification for {target}"), is_blind_safe=False),
    )
    QUALIFICATION_AGAIN = (
        "qualification_again",
        _batch(N_("{actor} granted another qualification attempt for {target}"), is_blind_safe=False),
    )
    ADD_GOLD_QUESTIONS = (
        "add_known_items",
        _batch(N_("{actor} added gold questions to {target}"), is_blind_safe=False),
    )
    PUT_BACK_GOLD_QUESTION = (
        "put_back_known_item",
        _batch(N_("{actor} put a gold question of {target} back"), is_blind_safe=False),
    )
    TAKE_OUT_GOLD_QUESTION = (
        "take_out_known_item",
        _batch(N_("{actor} took a gold question of {target} out"), is_blind_safe=False),
    )
    MAKE_EXPERT_RESPONSES = (
        "make_expert_responses",
        _batch(N_("{actor} made responses of the experts' answers in {target}"), is_blind_safe=False),
    )
    AGREEMENT_ALARM = (
        "agreement_alarm",
        _batch(N_("The agreement in {target} fell below its threshold"), is_blind_safe=False),
    )
    ALARM_SEEN = "alarm_seen", _batch(N_("{actor} saw the alarm of {target}"), is_blind_safe=False)

    # Labels and decisions.
    ADJUDICATE = "adjudicate", _labelling(N_("{actor} decided {target}"), "task")
    SECOND_READING = "second_reading", _labelling(N_("{actor} decided {target} again"), "task")
    SECOND_ADJUDICATION = (
        "second_adjudication",
        _labelling(N_("{actor} decided {target} as a second adjudicator"), "task"),
    )
    SKIP = "skip", _labelling(N_("{actor} skipped {target}"), "assignment")
    SKIP_SECOND_READING = "skip_second_reading", _labelling(N_("{actor} skipped {target}"), "task")
    SKIP_SECOND_ADJUDICATION = "skip_second_adjudication", _labelling(N_("{actor} skipped {target}"), "task")
    DISCARD_DRAFT = "discard_draft", _labelling(N_("{actor} discarded the draft of {target}"), "assignment")
    REQUEST_CORRECTION = (
        "request_correction",
        _labelling(N_("{actor} asked for a correction of {target}"), "assignment"),
    )
    HANDLE_CORRECTION = (
        "handle_correction",
        _labelling(N_("{actor} dealt with a correction of {target}"), "assignment"),
    )

    # Gold.
    RELEASE_GOLD = "release_gold", Meaning(Category.GOLD, N_("{actor} cut {target}"), ("release",))
    EXPORT_GOLD = (
        "export_gold",
        Meaning(Category.GOLD, N_("{actor} ordered an export of {target}"), ("release",)),
    )
    DISCARD_EXPORT = (
        "discard_export",
        Meaning(Category.GOLD, N_("{actor} discarded an export of {target}"), ("release",)),
    )

    # Reading.
    OPEN_RESULTS = (
        "open_results",
        _reading(
            N_("{actor} opened the results of {target} for the first time"), "batch", is_blind_safe=True
        ),
    )
    VIEW_WORK = "view_work", _reading(N_("{actor} viewed the work of {target}"), "person", is_blind_safe=True)
    VIEW_LABELS = "view_labels", _reading(N_("{actor} viewed everybody's labels of {target}"), "task")
    DOWNLOAD_EXPORT = "download_export", _reading(N_("{actor} downloaded an export of {target}"), "release")
    DOWNLOAD_GOLD = "download_gold", _reading(N_("{actor} downloaded the gold file of {target}"), "release")
    DOWNLOAD_FILE = (
        "download_file",
        _reading(
            N_("{actor} downloaded a file of {target}"),
            "page",
            "release",
            "run",
            "choice_report",
            "campaign",
            "study",
        ),
    )
    EXPORT_AUDIT = (
        "export_audit",
        _reading(N_("{actor} exported {target}"), "audit", is_blind_safe=True),
    )

    # The site.
    MAKE_STUDY = "make_study", _site(N_("{actor} made {target}"), "study")
    SET_STUDY_TITLE = "set_study_title", _site(N_("{actor} set the title of {target}"), "study")
    ARCHIVE_STUDY = "archive_study", _site(N_("{actor} archived {target}"), "study")
    RESTORE_STUDY = "restore_study", _site(N_("{actor} restored {target}"), "study")
    BEGIN_STUDY_DELETION = (
        "begin_study_deletion",
        _site(N_("{actor} began to delete {target}"), "study", is_of_site=True),
    )
    DELETE_STUDY = "delete_study", _site(N_("{actor} deleted {target}"), "study", is_of_site=True)
    SET_CARE = "set_care", _site(N_("{actor} set {target}"), "care")
    CANCEL_JOB = "cancel_job", _site(N_("{actor} cancelled {target}"), "job")
    RETRY_JOB = "retry_job", _site(N_("{actor} tried {target} again"), "job")
    MAKE_WEBHOOK = "make_webhook", _site(N_("{actor} set up {target}"), "webhook")
    CHANGE_WEBHOOK = "change_webhook", _site(N_("{actor} changed {target}"), "webhook")
    RENEW_WEBHOOK_SECRET = (
        "renew_webhook_secret",
        _site(N_("{actor} renewed the secret of {target}"), "webhook"),
    )
    TURN_ON_WEBHOOK = "turn_on_webhook", _site(N_("{actor} turned {target} on"), "webhook")
    TURN_OFF_WEBHOOK = "turn_off_webhook", _site(N_("{actor} turned {target} off"), "webhook")
    WEBHOOK_GIVEN_UP = (
        "webhook_given_up",
        _site(N_("{target} was turned off: its receiver accepted nothing any more"), "webhook"),
    )
    SEND_WEBHOOKS_AGAIN = (
        "send_webhooks_again",
        _site(N_("{actor} had messages of {target} sent again"), "webhook"),
    )
    RESTORE_BACKUP = (
        "restore_backup",
        _site(N_("{target} was restored from a backup"), "site", is_of_site=True),
    )
    ADMIN_ADD = "admin_add", _site(N_("{actor} added in the admin: {target}"), "admin", is_of_site=True)
    ADMIN_CHANGE = (
        "admin_change",
        _site(N_("{actor} changed in the admin: {target}"), "admin", is_of_site=True),
    )
    ADMIN_DELETE = (
        "admin_delete",
        _site(N_("{actor} deleted in the admin: {target}"), "admin", is_of_site=True),
    )
