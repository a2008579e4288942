"""Who may do what. Each act is named once, with the roles in a study that permit it; nothing else decides by role.

An admin may do everything. What a role permits ends at the study in which a person has it, and blindness
(annotation/selectors/access.py) takes from it. docs/permissions.md is generated from this module and the addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from annotation.core.errors import N_

ANNOTATOR = "annotator"
ADJUDICATOR = "adjudicator"
MANAGER = "manager"
RESEARCHER = "researcher"
VIEWER = "viewer"
ROLES = (ANNOTATOR, ADJUDICATOR, MANAGER, RESEARCHER, VIEWER)
READERS = (MANAGER, RESEARCHER, VIEWER)
"""The roles in which somebody can open labels and results."""


@dataclass(frozen=True)
class Act:
    """Something that a person does. ``name`` is a verb phrase. What ``is_of_site`` changes something that all studies
    share: where there are several, an admin alone may.
    """

    name: str
    roles: tuple[str, ...]
    is_of_site: bool = False


# Labelling.
LABEL = Act(N_("label responses"), (ANNOTATOR,))
ADJUDICATE = Act(N_("settle disputes"), (ADJUDICATOR,))
HANDLE_CLAIMS = Act(N_("skip, give back and extend claimed items"), (ANNOTATOR, ADJUDICATOR))
READ_OWN_GUIDELINE = Act(N_("read the guideline of one's batch"), (ANNOTATOR, ADJUDICATOR))
READ_OWN_LABELS = Act(N_("read and correct one's own labels"), (ANNOTATOR, ADJUDICATOR))
ASK_ABOUT_ITEMS = Act(N_("ask the managers about an item"), (ANNOTATOR, ADJUDICATOR))
READ_GUIDELINES = Act(N_("read guidelines"), ROLES)
SEE_CHARTS = Act(N_("load the picture of a chart"), ROLES)

# Writing prompts.
FIND_CAMPAIGNS = Act(
    N_("open the campaigns of which one is a member"), (ANNOTATOR, ADJUDICATOR, MANAGER, RESEARCHER)
)
WRITE_PROMPTS = Act(N_("write prompts for a campaign"), (ANNOTATOR, ADJUDICATOR))
REVIEW_PROMPTS = Act(N_("review the prompts of a campaign"), (ANNOTATOR, ADJUDICATOR))
READ_CAMPAIGNS = Act(N_("read the board of a campaign"), (MANAGER, RESEARCHER))
RUN_CAMPAIGNS = Act(N_("make a campaign, set its quotas and name its members"), (MANAGER,))

# Managing.
READ_DATA = Act(N_("read what a dataset holds"), (MANAGER, RESEARCHER))
IMPORT_DATA = Act(N_("import data"), (MANAGER,))
DELETE_DATA = Act(N_("delete a dataset on which nothing rests"), (MANAGER,))
MANAGE_BATCHES = Act(N_("make batches and assign work"), (MANAGER,))
ANSWER_QUESTIONS = Act(N_("answer questions about items"), (MANAGER,))
MANAGE_GOLD_QUESTIONS = Act(N_("set gold questions and repeated items"), (MANAGER,))
REVIEW_QUALITY = Act(N_("review the quality of people's work"), (MANAGER,))
WRITE_GUIDELINES = Act(N_("write and publish guidelines"), (MANAGER,))
EDIT_DISPUTE_REASONS = Act(N_("edit the reasons for disputes"), (MANAGER,), is_of_site=True)
MANAGE_PEOPLE = Act(N_("invite people and set their roles"), (MANAGER,))
LIMIT_EXPOSURE = Act(N_("limit the exposure to severe content"), (MANAGER,), is_of_site=True)
NAME_ANNOTATORS = Act(N_("export the real names of annotators"), (MANAGER,))
NAME_STUDY = Act(N_("set the title of a study"), (MANAGER,))
SHARE_WITH_STUDY = Act(N_("share data, gold and scorers with another study, or move data there"), (MANAGER,))
MANAGE_WEBHOOKS = Act(N_("set up webhooks of a study and see what they sent"), (MANAGER,))
MAKE_STUDY = Act(N_("make a study"), ())
ARCHIVE_STUDY = Act(N_("archive a study and bring it back"), ())
DELETE_STUDY = Act(N_("delete an archived study"), ())
OPERATE = Act(N_("watch the queues and the workers of the site"), ())
MANAGE_SIGN_INS = Act(
    N_("end the sessions of others, reset their second factors and link their accounts"), ()
)
ERASE_PEOPLE = Act(N_("erase a person"), ())
READ_AUDIT = Act(N_("read the audit trail"), (MANAGER,))

# Reading results.
READ_PIPELINE = Act(N_("see how far a study has come"), (MANAGER, RESEARCHER))
READ_AGREEMENT = Act(N_("read agreement"), (MANAGER, RESEARCHER))
READ_TASKS = Act(N_("read every label of a response"), (MANAGER, RESEARCHER))
READ_RELEASES = Act(N_("read gold releases"), READERS)
READ_SCORERS = Act(N_("read scorers and regression cases"), READERS)
READ_BOARDS = Act(N_("read leaderboards"), READERS)
WATCH_JOBS = Act(N_("watch jobs of others"), READERS)
STOP_JOBS = Act(N_("stop jobs of others"), (MANAGER, RESEARCHER))

# Gold.
EXPORT_RELEASE = Act(N_("export a gold release"), (MANAGER, RESEARCHER))
CUT_RELEASE = Act(N_("cut a gold release"), (RESEARCHER,))

# Scorers.
TRAIN_SCORER = Act(N_("train a scorer"), (RESEARCHER,))
PROMOTE_SCORER = Act(N_("promote a scorer"), (RESEARCHER,))
USE_SCORER = Act(N_("score responses"), (RESEARCHER,))
REQUEST_PREDICTIONS = Act(N_("request predictions by the API"), (MANAGER, RESEARCHER))
EXPORT_SCORER = Act(N_("export a scorer"), (MANAGER, RESEARCHER))
LABEL_ABSTENTIONS = Act(N_("have abstentions labelled"), (MANAGER, RESEARCHER))
EDIT_REGRESSION_CASES = Act(N_("edit regression cases"), (RESEARCHER,))

# Leaderboards.
RUN_BENCHMARK = Act(N_("run a benchmark, retrain and run again"), (RESEARCHER,))
COMPUTE_SENSITIVITY = Act(N_("compute the sensitivity of a leaderboard"), (MANAGER, RESEARCHER))
READ_LABEL_PLANS = Act(N_("read label plans"), (MANAGER, RESEARCHER))
PLAN_LABELS = Act(N_("make a batch from a label plan"), (RESEARCHER,))
READ_LINKS = Act(N_("read the links to a leaderboard"), (MANAGER, RESEARCHER))
SHARE_BOARD = Act(N_("share a leaderboard by a link"), (RESEARCHER,))
ENTER_PUBLISHED_TABLE = Act(N_("enter published tables"), (RESEARCHER,))
REPORT_CHOICES = Act(N_("report on multiple choice"), (RESEARCHER,))

# Endpoints.
READ_COLLECTIONS = Act(N_("read how responses were collected"), (MANAGER, RESEARCHER))
COLLECT_RESPONSES = Act(N_("collect responses"), (RESEARCHER,))
READ_JUDGES = Act(N_("read judges and how they compare"), (MANAGER, RESEARCHER))
ASK_JUDGES = Act(N_("set up and ask judges"), (RESEARCHER,))

ACTS: dict[str, Act] = {name.lower(): act for name, act in list(globals().items()) if isinstance(act, Act)}
"""By the lower-case name of the constant, in the order of this module."""

ANYBODY = "anybody"
SIGNED_IN = "anybody signed in, of what is theirs"
UNGUARDED = {
    **dict.fromkeys(["login", "account_login", "logout", "set_language", "api-nowhere"], ANYBODY),
    "password-forgotten": ANYBODY,
    "mail-stop": "the holder of the link in a mail",
    **dict.fromkeys(["healthz", "readyz"], ANYBODY),
    "metrics": "the holder of the token ASSAY_METRICS_TOKEN",
    **dict.fromkeys(["demo", "demo-sign-in"], "anybody, in the process of the demo alone"),
    **dict.fromkeys(["join", "set-up"], "the holder of the link, once"),
    **dict.fromkeys(["shared", "shared-in", "shared-chart"], "the holder of the link, while it stands"),
    "job-progress": "whoever began the job, and who may watch jobs of others",
    "job-cancel": "whoever began the job, and who may stop jobs of others",
    "api-manage-job": "whoever began the job, and who may watch jobs of others",
    "api-manage-job-cancel": "whoever began the job, and who may stop jobs of others",
    **dict.fromkeys(
        ["home", "studies", "account", "admin-own-password", "api-schema", "api-docs"], SIGNED_IN
    ),
    **dict.fromkeys(["account-name", "account-care", "account-topics", "account-password"], SIGNED_IN),
    **dict.fromkeys(
        ["account-token", "account-token-revoke", "account-links-seen", "api-batches", "api-manage-studies"],
        SIGNED_IN,
    ),
    **dict.fromkeys([f"account-mail{form}" for form in ("", "-address", "-remove", "-settings")], SIGNED_IN),
    "account-mail-confirm": "whoever holds the link and is signed in as its person, once",
    **dict.fromkeys(["account-session-revoke", "account-sessions-revoke", "account-confirm"], SIGNED_IN),
    **dict.fromkeys(
        ["second-factor", *(f"second-factor-{part}" for part in ("app", "passkey", "remove", "codes"))],
        SIGNED_IN,
    ),
    **dict.fromkeys(["account-provider-link", "account-provider-unlink"], SIGNED_IN),
    **dict.fromkeys(["mfa_authenticate"], "whoever has said the right password, and has a second factor"),
    "sign-in-passkey": ANYBODY,
    **dict.fromkeys(["openid_connect_login", "openid_connect_callback", "saml_login"], ANYBODY),
    **dict.fromkeys(["saml_acs", "saml_finish_acs", "saml_metadata"], ANYBODY),
    **dict.fromkeys(["oidc-logout", "saml_sls"], "the identity provider, by its signature"),
}
"""Who may open the addresses that no act guards, by the names of the addresses."""
