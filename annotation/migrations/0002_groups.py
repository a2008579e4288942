"""The four groups; a role is a group."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

ROLES = ("annotator", "adjudicator", "manager", "researcher")


def make_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    group = apps.get_model("auth", "Group")
    for role in ROLES:
        group.objects.get_or_create(name=role)


class Migration(migrations.Migration):
    dependencies = [("annotation", "0001_initial")]
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
