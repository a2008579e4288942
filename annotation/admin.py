"""Django's admin for what only an admin does: people and their groups.

Nothing that was annotated, settled or predicted is registered: work changes through the services alone, and an
admin who annotates is blind like anybody else.
"""

from __future__ import annotations

from typing import Any, cast

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person
from annotation.services.audit import record

MAX_TARGET_LENGTH = 200


class NewPersonForm(forms.ModelForm):  # type: ignore[type-arg]
    """Without a password, which the person sets by a link."""

    class Meta:
        model = Person
        fields = ("username",)

    def save(self, commit: bool = True) -> Person:
        self.instance.set_unusable_password()
        person: Person = super().save(commit)
        return person


class RecordedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """What an admin does here is in the audit trail, beside the admin's own log."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _record(AnnotationVerb.ADMIN_ADD, request, obj, message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _record(AnnotationVerb.ADMIN_CHANGE, request, obj, message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for deleted in queryset:
            _record(AnnotationVerb.ADMIN_DELETE, request, deleted, [])
        return super().log_deletions(request, queryset)


def _record(verb: AnnotationVerb, request: HttpRequest, row: Model, message: Any) -> None:
    """With the names of the fields that were changed, never their values."""
    target = f"admin:{row._meta.model_name} {row}"[:MAX_TARGET_LENGTH]
    record(actor=cast("Person", request.user), verb=verb, target=target, id=str(row.pk), changes=message)


admin.site.unregister(Group)


@admin.register(Group)
class RecordedGroupAdmin(RecordedAdmin, GroupAdmin):
    pass


# allauth's: an address is its person's own affair (MailProfile), providers stand in a document, and their accounts and
# the second factors are changed on pages that ask who it is and write it down.
for model in (EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(model)


@admin.register(Person)
class PersonAdmin(RecordedAdmin, UserAdmin):  # type: ignore[type-arg]
    """Nobody's password is set here, and no token is shown: a set-up link does the one, its owner makes the other."""

    list_display = ("username", "display_name", "is_active", "is_superuser")
    fieldsets = (
        (None, {"fields": ("username",)}),
        (_("Personal info"), {"fields": ("first_name", "last_name")}),
        (_("Permissions"), {"fields": ("is_active", "is_staff", "is_superuser")}),
        *(UserAdmin.fieldsets or ())[3:],
        (_("Display"), {"fields": ("display_name",)}),
    )
    add_form = NewPersonForm
    add_fieldsets = ((None, {"fields": ("username",)}),)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:  # noqa: A002 (Django's)
        raise PermissionDenied
