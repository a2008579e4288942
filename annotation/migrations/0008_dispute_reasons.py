"""The reasons that a new site begins with; the managers edit them."""

from __future__ import annotations

from typing import Any

from django.db import migrations

REASONS = (
    ("reading_slip", "Reading slip", "看漏或误读", False),
    ("guideline_gap", "Guideline gap", "指南未涵盖", True),
    ("guideline_unclear", "Guideline unclear", "指南表述不清", True),
    ("defensible_either_way", "Defensible either way", "两种判断均有道理", False),
)


def fill(apps: Any, schema_editor: Any) -> None:
    reasons = apps.get_model("annotation", "DisputeReason").objects.using(schema_editor.connection.alias)
    for position, (key, english, chinese, makes_note) in enumerate(REASONS):
        words = {"en": english, "zh": chinese}
        reasons.get_or_create(
            key=key, defaults={"words": words, "makes_note": makes_note, "position": position}
        )


class Migration(migrations.Migration):
    dependencies = [("annotation", "0007_workspaces")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
