"""The files for containers, read: what can be checked of them without an engine (images: make test-instructor)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from warplab.sandbox import system_calls

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SECCOMP = json.loads((ROOT / "docker" / "seccomp.json").read_text())
# Text before the first stage, then name and text of each.
PARTS = re.split(r"^FROM \S+ AS (\S+)$", (ROOT / "docker" / "Dockerfile").read_text(), flags=re.MULTILINE)
STAGES = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


def allowed() -> set[str]:
    return {
        name
        for rule in SECCOMP["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args")
        for name in rule["names"]
    }


@pytest.mark.parametrize("name", ["capture", "judge"])
def test_a_service_has_nothing_that_it_does_not_need(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["network_mode"] == "none" and service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert set(service["security_opt"]) == {"no-new-privileges:true", "seccomp:./docker/seccomp.json"}
    assert service["pids_limit"] and service["mem_limit"] and service["tmpfs"]
    assert not {"privileged", "cap_add", "devices", "pid", "ipc", "userns_mode", "deploy"} & service.keys()
    assert not [volume for volume in service["volumes"] if "docker.sock" in volume]


def test_students_code_is_apart_from_the_class() -> None:
    assert COMPOSE["services"]["capture"]["volumes"] == ["spool:/spool"]
    gpu = yaml.safe_load((ROOT / "docker" / "gpu.yaml").read_text())
    assert list(gpu["services"]) == ["judge"]


def test_a_learners_container_listens_to_its_own_machine_alone() -> None:
    lab = yaml.safe_load((ROOT / "docker" / "lab.yaml").read_text())["services"]["lab"]
    assert lab["build"]["target"] in STAGES and lab["volumes"][0] == "..:/warplab"
    assert all(port.startswith("127.0.0.1:") for port in lab["ports"])


def test_the_list_of_system_calls_serves_every_sandbox_within() -> None:
    lists = [value for value in vars(system_calls).values() if isinstance(value, dict) and "read" in value]
    needed = {name for calls in lists for name in calls} - {"clone"}  # allowed without new namespaces
    assert lists and needed - allowed() == set()
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} <= allowed()


def test_the_list_refuses_what_opens_containers() -> None:
    assert SECCOMP["defaultAction"] == "SCMP_ACT_ERRNO"
    dangerous = {
        "unshare", "setns", "mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "ptrace", "bpf",
        "process_vm_readv", "process_vm_writev", "perf_event_open", "userfaultfd", "io_uring_setup", "keyctl",
        "add_key", "kexec_load", "init_module", "finit_module", "reboot", "swapon", "open_by_handle_at",
        "personality", "chroot",
    }  # fmt: skip
    assert not dangerous & allowed()
    (clone,) = [rule for rule in SECCOMP["syscalls"] if rule["names"] == ["clone"]]
    masked = clone["args"][0]
    namespaces = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
    assert masked["op"] == "SCMP_CMP_MASKED_EQ" and masked["value"] == namespaces and masked["valueTwo"] == 0


def test_every_image_that_is_named_can_be_built() -> None:
    for name in ("capture", "judge"):
        assert COMPOSE["services"][name]["build"]["target"] in STAGES
    text = re.sub(r"^\s*//.*$", "", (ROOT / ".devcontainer" / "devcontainer.json").read_text(), flags=re.MULTILINE)
    devcontainer = json.loads(text)
    assert devcontainer["build"]["target"] in STAGES and devcontainer["hostRequirements"]["gpu"] == "optional"


def test_what_is_copied_into_an_image_holds_no_answers() -> None:
    """Of the images that students' code runs in; learners get the whole checkout or a release of it."""
    copied = {name: re.findall(r"^COPY (\S+)", text, re.MULTILINE) for name, text in STAGES.items()}
    assert copied["capture"] == ["warplab"] and copied["judge"] == ["--from=core", "systems", "autograder", "labs"]
    assert copied["core"] == ["warplab"]
