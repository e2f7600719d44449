"""The system calls a sandbox takes away, as a seccomp filter that the kernel can load.

The filter is assembled here: it needs no libseccomp, of which a slim image has none, and a table of
numbers for two architectures is less to trust than a library found at run time.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from functools import cache

from agentos.integrations.sandboxes.base import SandboxMissing
from agentos.integrations.sandboxes.syscalls import NUMBERS

_LOAD = 0x20  # a 32-bit word of struct seccomp_data into the accumulator
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_RETURN = 0x06

_ALLOW = 0x7FFF0000
_FAIL = 0x00050000  # the low 16 bits are the errno; 0 pretends success
_KILL = 0x80000000

_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16
_X32 = 0x40000000  # x86-64 kernels know a second set of numbers from here on

# Which column of the table, and what the kernel calls the architecture (AUDIT_ARCH_*).
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into, or paste into, somebody's terminal
# Local, IPv4, IPv6 and netlink sockets know network namespaces. Others, vsock above all, reach out.
_FAMILIES = (1, 2, 10, 16)

_Instruction = tuple[int, int, int, int]

# Whatever the command is: it has no business with the kernel, nor with others' memory.
_DENIED = [
    "mount",
    "umount2",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "open_tree",
    "open_tree_attr",
    "mount_setattr",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_getfd",
    "bpf",
    "keyctl",
    "add_key",
    "request_key",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "mknod",
    "mknodat",
    "swapon",
    "swapoff",
    "reboot",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "acct",
    "quotactl",
    "quotactl_fd",
    "syslog",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "modify_ldt",
    "lookup_dcookie",
    "vhangup",
    "open_by_handle_at",
    "fanotify_init",
]

# What namespaces keep apart under bubblewrap, and nothing does under Landlock.
_DENIED_WITHOUT_NAMESPACES = [
    "socket",
    "shmget",
    "shmat",
    "shmctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "mq_open",
    "mq_unlink",
    "inotify_add_watch",
    "migrate_pages",
    "move_pages",
    "ioprio_set",
    "setpriority",
]

# These change other processes, named by a pid in the first argument; 0 is oneself.
_ONLY_ONESELF = [
    "prlimit64",
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    "sched_setaffinity",
]

# All stay in one process group, so that one signal ends them all.
_PRETENDED = ("setsid", "setpgid")

# Landlock does not look at these; the owner of a file outside could use them on it by its path.
_DENIED_ON_OWN_FILES = [
    "chmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "setxattr",
    "lsetxattr",
    "removexattr",
    "lremovexattr",
    "setxattrat",
    "removexattrat",
    "file_setattr",
]


@cache
def filter_within_namespaces() -> bytes:
    """The filter for a command that has namespaces of its own."""
    return _program([*_refusals(_DENIED), *_common(), *_families()])


@cache
def filter_without_namespaces(*, owns_files_outside: bool, truncate_unguarded: bool) -> bytes:
    """The filter for a command that Landlock alone keeps from the machine."""
    denied = [*_DENIED, *_DENIED_WITHOUT_NAMESPACES]
    rules = []
    if owns_files_outside:
        denied += _DENIED_ON_OWN_FILES
        # With a path it names a file; without one it is about a file that is open already.
        rules += _unless("utimensat", 1, (0,), errno.EPERM)
    if truncate_unguarded:
        denied.append("truncate")
    for name in _ONLY_ONESELF:
        rules += _unless(name, 0, (0,), errno.EPERM)
    for name in _PRETENDED:
        rules += _on(name, [_give(_FAIL)])
    return _program([*_refusals(denied), *_common(), *rules])


def _common() -> list[_Instruction]:
    return [
        *_on("clone", [_load_argument(0), (_ANY_BIT, 0, 1, _NAMESPACES), _refuse(errno.EPERM)]),
        # Its flags lie in memory, where a filter cannot look; callers fall back to clone.
        *_on("clone3", [_refuse(errno.ENOSYS)]),
        *_on(
            "ioctl",
            [
                _load_argument(1),
                (_EQUAL, 1, 0, _TIOCSTI),
                (_EQUAL, 0, 1, _TIOCLINUX),
                _refuse(errno.EPERM),
            ],
        ),
    ]


def _families() -> list[_Instruction]:
    return _unless("socket", 0, _FAMILIES, errno.EAFNOSUPPORT)


def _program(rules: Iterable[_Instruction]) -> bytes:
    _, architecture = _machine()
    return _packed(
        [
            (_LOAD, 0, 0, _OFFSET_ARCH),
            (_EQUAL, 1, 0, architecture),
            _give(_KILL),
            (_LOAD, 0, 0, _OFFSET_NUMBER),
            (_AT_LEAST, 0, 1, _X32),
            _refuse(errno.ENOSYS),
            *rules,
            _give(_ALLOW),
        ]
    )


def _refusals(names: Iterable[str]) -> list[_Instruction]:
    found: list[_Instruction] = []
    for name in names:
        if (number := _number(name)) is not None:
            found += [(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    return found


def _on(name: str, steps: list[_Instruction]) -> list[_Instruction]:
    """`steps` for this call; afterwards the accumulator holds the call's number again."""
    number = _number(name)
    if number is None:
        return []
    return [(_EQUAL, 0, len(steps), number), *steps, (_LOAD, 0, 0, _OFFSET_NUMBER)]


def _unless(name: str, argument: int, values: tuple[int, ...], error: int) -> list[_Instruction]:
    """Refuse the call unless its argument is one of `values`."""
    tests: list[_Instruction] = [
        (_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)
    ]
    return _on(name, [_load_argument(argument), *tests, _refuse(error)])


def _load_argument(index: int) -> _Instruction:
    """The low half: all that is looked at here are C ints, or flags that fit."""
    return (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * index)


def _refuse(error: int) -> _Instruction:
    return _give(_FAIL | error)


def _give(verdict: int) -> _Instruction:
    return (_RETURN, 0, 0, verdict)


def _packed(instructions: Iterable[_Instruction]) -> bytes:
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def _number(name: str) -> int | None:
    column, _ = _machine()
    return NUMBERS[name][column]


def _machine() -> tuple[int, int]:
    name = platform.machine()
    if name not in _MACHINES:
        raise SandboxMissing(
            f"There is no list of system calls for {name}.", hint="Run AgentOS on x86-64 or ARM64."
        )
    return _MACHINES[name]
