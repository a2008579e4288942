"""Django's admin for what only an admin does: people and their groups.

Nothing that was annotated, settled or predicted is registered: work changes through the services alone, and an
admin who annotates is blind like anybody else.
"""

from __future__ import annotations

from typing import Any, cast

from allauth.account.models import EmailAddress
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from annotation.models import Job, Person
from annotation.selectors.access import sealed_batches
from annotation.selectors.releases.releases import RELEASE_JOB


class NewPersonForm(forms.ModelForm):  # type: ignore[type-arg]
    """Without a password, which the person sets by a link."""

    class Meta:
        model = Person
        fields = ("username",)

    def save(self, commit: bool = True) -> Person:
        self.instance.set_unusable_password()
        person: Person = super().save(commit)
        return person


admin.site.unregister(EmailAddress)  # allauth's: nobody has an address here


@admin.register(Person)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    """Nobody's password is set here, and no token is shown: a set-up link does the one, its owner makes the other."""

    list_display = ("username", "display_name", "is_active", "is_superuser")
    fieldsets = (
        (None, {"fields": ("username",)}),
        *(UserAdmin.fieldsets or ())[1:2],
        (_("Permissions"), {"fields": ("is_active", "is_staff", "is_superuser")}),
        *(UserAdmin.fieldsets or ())[3:],
        (_("Display"), {"fields": ("display_name",)}),
    )
    add_form = NewPersonForm
    add_fieldsets = ((None, {"fields": ("username",)}),)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:  # noqa: A002 (Django's)
        raise PermissionDenied


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """To look at only: which jobs ran where and how they ended. Results stand on their own pages."""

    list_display = ("id", "kind", "title", "state", "attempt", "worker", "heartbeat", "created_at")
    list_filter = ("state", "kind")
    fields = (
        "kind",
        "title",
        "state",
        "attempt",
        "deaths",
        "worker",
        "heartbeat",
        "stage",
        "progress",
        "error",
        "created_at",
        "started_at",
        "finished_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Titles and errors of imports and releases name models and people: not for an admin who judges blind."""
        jobs, blind = super().get_queryset(request), sealed_batches(cast("Person", request.user))
        telling = Q(payload__has_key="import") | Q(kind=RELEASE_JOB)
        return jobs.exclude(telling) if blind.exists() else jobs

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
