"""The pages of webhooks: where a study's, or the site's, events are sent to, and what came of it.

A manager opens them to connect a program of their own (a chat, a pipeline), to read there why it hears nothing, and to
have messages sent again after it was down. An admin does the same for the site, which is told of all studies.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import Crumb, breadcrumbs, parse_int
from annotation.domain.permissions import MANAGE_WEBHOOKS, OPERATE
from annotation.domain.webhooks.events import EVENT_LABELS, WebhookEvent
from annotation.forms.webhooks import DeliveryFilterForm, WebhookForm, WebhookSecretForm
from annotation.models import Study, WebhookDelivery, WebhookEndpoint
from annotation.selectors.studies import find_study
from annotation.selectors.webhooks.endpoints import (
    get_delivery,
    get_endpoint,
    has_lost_key,
    is_blinded_everywhere,
    list_attempts,
    list_endpoints,
    list_last_attempts,
    select_visible,
)
from annotation.selectors.webhooks.messages import build_body
from annotation.services.webhooks import endpoints as services
from annotation.views.access import act_required, person_of, post_form
from annotation.views.notices import add_notice

PAGE = 50


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_WEBHOOKS)
def webhooks(request: HttpRequest) -> HttpResponse:
    """The study's webhooks; POST sets one up, and its answer alone shows the secret."""
    study = find_study()
    crumbs = breadcrumbs((_("Members"), "people", []), title=_("Webhooks"))
    return _show_list(request, study, crumbs)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(OPERATE)
def operations_webhooks(request: HttpRequest) -> HttpResponse:
    """The same of the site."""
    crumbs = breadcrumbs((_("Operations"), "operations", []), title=_("Webhooks of the site"))
    return _show_list(request, None, crumbs)


def _show_list(request: HttpRequest, study: Study | None, crumbs: list[Crumb]) -> HttpResponse:
    person = person_of(request)
    form = WebhookForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {}
    if form.is_valid():
        try:
            made, secret = services.create_endpoint(
                study=study, base_url=_find_base(request), actor=person, **form.cleaned_data
            )
        except AssayError as error:
            form.add_error("url", error_text(error))
        else:
            context = {"made": made, "secret": secret}
            form = WebhookForm()
    context |= {
        "form": form,
        "rows": list_endpoints(person, None if study is None else study.pk),
        "is_of_site": study is None,
        "crumbs": crumbs,
        "allows_http": settings.WEBHOOK_HTTP,
    }
    status = 422 if form.is_bound else 200
    return render(request, "annotation/webhooks/list.html", context, status=status)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_WEBHOOKS)
def webhook(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """A webhook with what it sent; POST changes where it goes and what it tells of."""
    endpoint = get_endpoint(person_of(request), endpoint_id)
    if request.method == "GET":
        return _show_endpoint(request, endpoint)
    form = WebhookForm(request.POST)
    if form.is_valid():
        try:
            services.change_endpoint(
                endpoint=endpoint,
                base_url=_find_base(request),
                actor=person_of(request),
                **form.cleaned_data,
            )
        except AssayError as error:
            form.add_error("url", error_text(error))
        else:
            add_notice(request, "webhook_changed")
            return redirect("webhook", endpoint_id)
    return _show_endpoint(request, endpoint, form=form)


@act_required(MANAGE_WEBHOOKS)
@never_cache
@post_form("webhook")
def webhook_secret(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """Renew the secret, which this answer alone shows."""
    endpoint = get_endpoint(person_of(request), endpoint_id)
    form = WebhookSecretForm(request.POST)
    if not form.is_valid():
        return _show_endpoint(request, endpoint, secret_form=form)
    renewed, secret = services.renew_secret(
        endpoint=endpoint, actor=person_of(request), hours=form.cleaned_data["hours"]
    )
    return _show_endpoint(request, renewed, secret=secret)


@act_required(MANAGE_WEBHOOKS)
@post_form("webhook")
def webhook_active(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    person = person_of(request)
    active = request.POST.get("active") == "1"
    services.set_active(endpoint=get_endpoint(person, endpoint_id), active=active, actor=person)
    add_notice(request, "webhook_on" if active else "webhook_off")
    return redirect("webhook", endpoint_id)


@act_required(MANAGE_WEBHOOKS)
@post_form("webhook")
def webhook_test(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    endpoint = get_endpoint(person_of(request), endpoint_id)
    delivery = services.send_test(endpoint=endpoint)
    add_notice(request, "webhook_test")
    return redirect("webhook-message", endpoint_id, delivery.pk)


@act_required(MANAGE_WEBHOOKS)
@post_form("webhook")
def webhook_again(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """Send a message again, or all that failed where none is named."""
    person = person_of(request)
    endpoint = get_endpoint(person, endpoint_id)
    text = request.POST.get("message", "")
    delivery = get_delivery(person, endpoint, parse_int(text) or 0) if text else None
    number = services.send_again(endpoint=endpoint, delivery=delivery, actor=person)
    add_notice(request, "webhook_again", n=number)
    return (
        redirect("webhook-message", endpoint_id, delivery.pk)
        if delivery
        else redirect("webhook", endpoint_id)
    )


@require_GET
@never_cache
@act_required(MANAGE_WEBHOOKS)
def webhook_message(request: HttpRequest, endpoint_id: int, delivery_id: int) -> HttpResponse:
    """One message: what is sent, and each attempt."""
    person = person_of(request)
    endpoint = get_endpoint(person, endpoint_id)
    delivery = get_delivery(person, endpoint, delivery_id)
    context = {
        "endpoint": endpoint,
        "delivery": delivery,
        "event": _(EVENT_LABELS[WebhookEvent(delivery.type)]),
        "body": build_body(delivery).decode(),
        "attempts": list_attempts(delivery),
        "crumbs": _list_crumbs(endpoint, _("Message")),
    }
    return render(request, "annotation/webhooks/message.html", context)


def _show_endpoint(request: HttpRequest, endpoint: WebhookEndpoint, **changes: Any) -> HttpResponse:
    person = person_of(request)
    visible = select_visible(person, [endpoint])
    filters = DeliveryFilterForm(request.GET)
    page = Paginator(visible.filter(**filters.filters).order_by("-pk"), PAGE).get_page(
        request.GET.get("page")
    )
    deliveries = list(page.object_list)
    last = list_last_attempts(deliveries)
    context = {
        "endpoint": endpoint,
        "events": [(event.value, _(EVENT_LABELS[event])) for event in endpoint.subscribed_events],
        "form": WebhookForm.of(endpoint),
        "secret_form": WebhookSecretForm(),
        "has_lost_key": has_lost_key(endpoint),
        "is_blinded": is_blinded_everywhere(person),
        "n_failed": visible.filter(state=WebhookDelivery.State.FAILED).count(),
        "filters": filters,
        "query": filters.query,
        "rows": [(delivery, last.get(delivery.pk)) for delivery in deliveries],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "anchor": "messages-title",
        "crumbs": _list_crumbs(endpoint),
    }
    is_refused = any(form.is_bound for name, form in changes.items() if name.endswith("form"))
    return render(
        request, "annotation/webhooks/endpoint.html", context | changes, status=422 if is_refused else 200
    )


def _list_crumbs(endpoint: WebhookEndpoint, title: str = "") -> list[Crumb]:
    """To the endpoint; with a title to what is beneath it."""
    steps: list[tuple[str, str, list[Any]]] = (
        [(_("Operations"), "operations", []), (_("Webhooks of the site"), "operations-webhooks", [])]
        if endpoint.study_id is None
        else [(_("Members"), "people", []), (_("Webhooks"), "webhooks", [])]
    )
    if title:
        steps.append((endpoint.host, "webhook", [endpoint.pk]))
    return breadcrumbs(*steps, title=title or endpoint.host)


def _find_base(request: HttpRequest) -> str:
    """Where the site's addresses begin: as the person who sets the webhook up has it."""
    return f"{request.scheme}://{request.get_host()}"
