"""The filter as the kernel would read it."""

from __future__ import annotations

import errno
import platform
import re
import struct
from pathlib import Path

import pytest

from agentos.integrations.sandboxes import seccomp
from agentos.integrations.sandboxes.base import SandboxMissing
from agentos.integrations.sandboxes.syscalls import NUMBERS

ALLOW = 0x7FFF0000
KILL = 0x80000000
X86, ARM = 0xC000003E, 0xC00000B7
MASK = (1 << 64) - 1


def verdict(program: bytes, number: int, *arguments: int, architecture: int = X86) -> int:
    """What the kernel decides: a small machine for the instructions that filters use."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(a & MASK for a in padded))
    steps = list(struct.iter_unpack("<HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            at += yes if holds else no


def refusal(error: int) -> int:
    return 0x00050000 | error


def x86(name: str) -> int:
    number = NUMBERS[name][0]
    assert number is not None
    return number


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    seccomp.filter_within_namespaces.cache_clear()
    program = seccomp.filter_within_namespaces()
    monkeypatch.undo()
    seccomp.filter_within_namespaces.cache_clear()
    return program


def test_ordinary_calls_are_allowed(inside: bytes) -> None:
    for number in (0, 1, 2, 3, 9, 39, 57, 59, 60, 231, 257):  # read … openat
        assert verdict(inside, number) == ALLOW


def test_dangerous_calls_are_refused(inside: bytes) -> None:
    for name in (
        "mount",
        "unshare",
        "setns",
        "ptrace",
        "bpf",
        "keyctl",
        "io_uring_setup",
        "mknodat",
    ):
        assert verdict(inside, x86(name)) == refusal(errno.EPERM)


@pytest.mark.parametrize("bit", [17, 25, 26, 27, 28, 29, 30])
def test_clone_makes_processes_but_no_namespaces(inside: bytes, bit: int) -> None:
    assert verdict(inside, x86("clone"), 17) == ALLOW
    assert verdict(inside, x86("clone"), 0x3D0F00) == ALLOW  # a thread
    assert verdict(inside, x86("clone"), 17 | 1 << bit) == refusal(errno.EPERM)
    assert verdict(inside, x86("clone3")) == refusal(errno.ENOSYS)


def test_terminals_cannot_be_typed_into(inside: bytes) -> None:
    assert verdict(inside, x86("ioctl"), 0, 0x5413) == ALLOW  # its size
    assert verdict(inside, x86("ioctl"), 0, 0x5412) == refusal(errno.EPERM)
    # The kernel looks at the low half only, so the filter must do so, too.
    assert verdict(inside, x86("ioctl"), 0, 0x5412 | 1 << 40) == refusal(errno.EPERM)
    assert verdict(inside, x86("ioctl"), 0, 0x541C) == refusal(errno.EPERM)


@pytest.mark.parametrize(
    ("family", "allowed"), [(1, 1), (2, 1), (10, 1), (16, 1), (17, 0), (40, 0)]
)
def test_socket_families(inside: bytes, family: int, allowed: int) -> None:
    expected = ALLOW if allowed else refusal(errno.EAFNOSUPPORT)
    assert verdict(inside, x86("socket"), family) == expected


def test_other_sets_of_numbers_are_no_way_around(inside: bytes) -> None:
    assert verdict(inside, 0x40000000 | x86("mount")) == refusal(errno.ENOSYS)
    assert verdict(inside, 21, architecture=0x40000003) == KILL  # 32-bit mount


def test_after_a_rule_the_next_one_still_sees_the_number(inside: bytes) -> None:
    assert verdict(inside, x86("socket"), 40) == refusal(errno.EAFNOSUPPORT)
    assert verdict(inside, x86("clone"), 17) == verdict(inside, x86("ioctl"), 0, 0) == ALLOW


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    build = seccomp.filter_without_namespaces.__wrapped__
    return build(owns_files_outside=True, truncate_unguarded=True)


def test_without_namespaces_there_are_no_sockets_and_no_sessions(outside: bytes) -> None:
    assert verdict(outside, x86("socket"), 1) == refusal(errno.EPERM)
    assert verdict(outside, x86("shmget")) == refusal(errno.EPERM)
    assert verdict(outside, x86("setsid")) == refusal(0)
    assert verdict(outside, x86("setpgid")) == refusal(0)


def test_without_namespaces_others_are_left_alone(outside: bytes) -> None:
    assert verdict(outside, x86("prlimit64"), 0) == ALLOW
    assert verdict(outside, x86("prlimit64"), 1) == refusal(errno.EPERM)
    assert verdict(outside, x86("sched_setaffinity"), 1) == refusal(errno.EPERM)


def test_metadata_of_files_named_by_a_path(outside: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chmod", "fchmodat", "fchownat", "setxattr", "truncate"):
        assert verdict(outside, x86(name)) == refusal(errno.EPERM)
    assert verdict(outside, x86("utimensat"), 3, 0) == ALLOW  # of an open file
    assert verdict(outside, x86("utimensat"), 3, 0x7F00) == refusal(errno.EPERM)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    build = seccomp.filter_without_namespaces.__wrapped__
    program = build(owns_files_outside=False, truncate_unguarded=False)
    assert verdict(program, x86("chmod")) == verdict(program, x86("truncate")) == ALLOW


def test_the_other_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    program = seccomp.filter_within_namespaces.__wrapped__()
    assert verdict(program, 40, architecture=ARM) == refusal(errno.EPERM)  # mount
    assert verdict(program, 220, 17, architecture=ARM) == ALLOW  # clone
    assert verdict(program, 220, 1 << 28, architecture=ARM) == refusal(errno.EPERM)
    assert verdict(program, 63, architecture=ARM) == ALLOW  # read
    assert verdict(program, 40, architecture=X86) == KILL


def test_an_unknown_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxMissing, match="riscv64"):
        seccomp.filter_within_namespaces.__wrapped__()


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0),
        ("/usr/include/asm-generic/unistd.h", 1),
    ],
)
def test_numbers_are_those_of_the_kernel(header: str, column: int) -> None:
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    text = Path(header).read_text()
    defined = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    known = {name: int(number) for name, number in reversed(defined)}
    ours = {name: numbers[column] for name, numbers in NUMBERS.items() if name in known}
    assert len(ours) > 80
    assert ours == {name: known[name] for name in ours}
