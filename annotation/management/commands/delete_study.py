from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.models import Study, StudyDeletion
from annotation.selectors.studies.deletion import (
    check_deletable,
    describe_table,
    get_existing_study,
    preview_deletion,
)
from annotation.services.studies.deletion import begin_deletion, describe_certificate


class Command(AssayCommand):
    help = (
        "Say what the deletion of an archived study would take away and what would stay. With --yes delete it, with its"
        " files, for good; the certificate says what went (docs/studies.md)."
    )
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--yes", action="store_true", help="do it: nothing brings the study back")
        parser.add_argument("--detach", action="store_true", help="leave it to a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        study = get_existing_study(options["name"])
        check_deletable(study)
        data = {"study": study.name, "deleted": False, **preview_deletion(study).to_json()}
        if not options["yes"]:
            return data
        return data | self._delete(study, is_detached=options["detach"])

    def _delete(self, study: Study, *, is_detached: bool) -> dict[str, Any]:
        deletion = begin_deletion(study=study, send=is_detached)
        assert deletion.job is not None
        if is_detached:
            return {"job": deletion.job.pk, "number": deletion.pk}
        self.run_job(deletion.job)
        done = StudyDeletion.objects.select_related("event__actor").get(pk=deletion.pk)
        return {"deleted": True, "number": done.pk, **describe_certificate(done)}

    def show(self, data: dict[str, Any]) -> None:
        gone = data["certificate"]["rows"] if data["deleted"] else data["goes"]
        self.stdout.write(f"{data['study']} is deleted. Gone:" if data["deleted"] else "What would go:")
        for table, number in gone.items():
            self.stdout.write(f"{number:>8}  {describe_table(table)}")
        if data["deleted"]:
            self.stdout.write(f"{len(data['certificate']['files']):>8}  files")
        for part in data["stays"]:
            reason = (
                f"shared with {', '.join(part['studies'])}"
                if part["studies"]
                else "what is shared rests on it"
            )
            self.stdout.write(f"stays: {part['kind']} {part['name']} ({reason})")
        self.stdout.write(
            f"stays: {data['events']} events of the audit trail, and the accounts of its people"
        )
        self.stdout.write("Backups made before have the study until they are deleted.")
        if data["deleted"]:
            self.stdout.write(f"certificate {data['number']}, sha256 {data['sha256']}")
        elif "job" in data:
            self.stdout.write(
                f"Job {data['job']} deletes it; certificate {data['number']} will say what went."
            )
        else:
            self.stdout.write("Nothing was changed; --yes does it.")
