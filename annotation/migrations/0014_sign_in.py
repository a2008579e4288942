"""The table in which sign-ins are counted, and a key by which a name is refused that looks like another one.

Where such names exist already, the oldest of them has the key: all go on signing in, and no further one is made.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from annotation.core.names import look_alike_key

CHUNK = 1000


def fill(apps: Any, schema_editor: Any) -> None:
    people = apps.get_model("annotation", "Person").objects.using(schema_editor.connection.alias)
    keys: set[str] = set()
    chunk = []
    for person in people.order_by("pk").only("username").iterator(CHUNK):
        key = look_alike_key(person.username)
        if key in keys:
            continue
        keys.add(key)
        person.name_key = key
        chunk.append(person)
        if len(chunk) == CHUNK:
            people.bulk_update(chunk, ["name_key"])
            chunk = []
    people.bulk_update(chunk, ["name_key"])


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0013_annotation_channel"),
    ]

    operations = [
        migrations.CreateModel(
            name="CacheEntry",
            fields=[
                (
                    "cache_key",
                    models.CharField(max_length=255, primary_key=True, serialize=False),
                ),
                ("value", models.TextField()),
                ("expires", models.DateTimeField(db_index=True)),
            ],
            options={
                "verbose_name": "cache entry",
                "verbose_name_plural": "cache entries",
            },
        ),
        migrations.AlterModelManagers(name="person", managers=[]),
        migrations.AddField(
            model_name="person",
            name="name_key",
            field=models.CharField(editable=False, max_length=600, null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=True),
        migrations.AddConstraint(
            model_name="person",
            constraint=models.UniqueConstraint(fields=["name_key"], name="person_name_looks_like_no_other"),
        ),
    ]
