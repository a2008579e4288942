"""The members of a study and their roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import StrictSerializer
from annotation.api.manage.base import (
    MAKE,
    MAKE_KEY,
    ListQuerySerializer,
    ManageView,
    NameField,
    NamesField,
    describe_part,
    list_manage_refusals,
    to_answer,
)
from annotation.core.study_scope import get_study_scope
from annotation.domain.permissions import MANAGE_PEOPLE, ROLES
from annotation.models import Person, StudyMembership
from annotation.selectors.people import get_person, list_people
from annotation.services.idempotency import MadeAnswer
from annotation.services.people import people as services

MAX_USERNAME_CHARACTERS = 150


def RolesField(**options: Any) -> serializers.ListField:  # noqa: N802 (it stands among fields)
    return serializers.ListField(
        **{"child": serializers.ChoiceField(choices=list(ROLES)), "max_length": len(ROLES), **options}
    )


class MemberSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="By which they sign in.")
    display_name = serializers.CharField(help_text="May be empty.")
    roles = RolesField(help_text="In this study.")
    is_active = serializers.BooleanField(help_text="False: they cannot sign in any more.")
    languages = serializers.ListField(
        child=serializers.CharField(), help_text="What they read; empty: every language."
    )


class AddPersonSerializer(StrictSerializer):
    name = NameField(max_length=MAX_USERNAME_CHARACTERS)
    display_name = NameField(default="", allow_blank=True)
    roles = RolesField(default=list, help_text="In this study.")
    languages = NamesField(help_text="What they read, such as zh and en; empty: every language.")


class TakeMemberSerializer(StrictSerializer):
    name = NameField(max_length=MAX_USERNAME_CHARACTERS, help_text="By which they sign in.")
    roles = RolesField(allow_empty=False, help_text="Beside those that they have in this study.")


class SetRolesSerializer(StrictSerializer):
    roles = RolesField(help_text="All that they have from now on; empty: none.")


MemberPart = describe_part(MemberSerializer, "Member")


def describe_people(people: Sequence[Person]) -> Iterable[dict[str, Any]]:
    """What ``MemberSerializer`` describes."""
    studies = get_study_scope()
    memberships = StudyMembership.objects.filter(person__in=people).order_by("role")
    if studies is not None:
        memberships = memberships.filter(study__in=studies)
    roles: dict[int, list[str]] = {}
    for person_id, role in memberships.values_list("person", "role").distinct():
        roles.setdefault(person_id, []).append(role)
    for person in people:
        yield {
            "name": person.username,
            "display_name": person.display_name,
            "roles": roles.get(person.pk, []),
            "is_active": person.is_active,
            "languages": person.languages,
        }


def describe_person(person: Person) -> dict[str, Any]:
    (body,) = describe_people([person])
    return body


class People(ManageView):
    act = MANAGE_PEOPLE

    @extend_schema(
        operation_id="manage_people",
        summary="Everybody of the study with their roles",
        parameters=[ListQuerySerializer],
        responses={200: MemberPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(list_people(), describe_people, MemberPart)


class AddPerson(ManageView):
    act = MANAGE_PEOPLE

    @extend_schema(
        operation_id="manage_person_add",
        summary="Make a person; they sign in once a manager gave them a set-up link, on the page of the person",
        parameters=[MAKE_KEY],
        request=AddPersonSerializer,
        responses={201: MemberSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(AddPersonSerializer).validated_data

        def add() -> MadeAnswer:
            person = services.add_person(**data, signs_in=True, actor=self.person)
            return to_answer(201, MemberSerializer, describe_person(person))

        return self.make_once(add)


class TakeMember(ManageView):
    act = MANAGE_PEOPLE

    @extend_schema(
        operation_id="manage_member_add",
        summary="Take somebody into the study who has an account on the site",
        parameters=[MAKE_KEY],
        request=TakeMemberSerializer,
        responses={201: MemberSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(TakeMemberSerializer).validated_data

        def take() -> MadeAnswer:
            person = services.add_member(username=data["name"], roles=data["roles"], actor=self.person)
            return to_answer(201, MemberSerializer, describe_person(person))

        return self.make_once(take)


class SetRoles(ManageView):
    act = MANAGE_PEOPLE

    @extend_schema(
        operation_id="manage_person_roles",
        summary="Set somebody's roles in the study; twice is once",
        request=SetRolesSerializer,
        responses={200: MemberSerializer, **list_manage_refusals(404, 409, 413, 415)},
    )
    def post(self, request: Request, username: str) -> Response:
        person = get_person(username)
        roles = self.parse(SetRolesSerializer).validated_data["roles"]
        services.set_roles(person=person, roles=roles, actor=self.person)
        return Response(MemberSerializer(describe_person(get_person(username))).data)
