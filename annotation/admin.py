"""Django's admin for what only an admin does: people and their groups.

Nothing that was annotated, settled or predicted is registered: work changes through the services alone, and an
admin who annotates is blind like anybody else.
"""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from annotation.models import Person


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
