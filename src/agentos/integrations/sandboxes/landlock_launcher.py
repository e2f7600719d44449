"""Runs one command under Landlock. Started as a program of its own; standard library only.

It stays outside as the parent: it reaps what the command leaves behind, ends everything when the
command has ended or when told to by SIGTERM, and so does when the worker dies.

Usage: python -I -S landlock_launcher.py PLAN_FD STATUS_FD, with a plan as in `landlock.py`.
What it imports is chosen by how long that takes, since every command waits for it.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
_SECCOMP_FILTER = 2

# What each version of Landlock has learnt to restrict: file rights, network rights, scopes.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE = 1 << 14
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_DEVICES = 1 << 6 | 1 << 11  # making character and block devices

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    plan_fd, status_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(status_fd, False)
    with os.fdopen(plan_fd, "rb") as file:
        plan = marshal.loads(file.read())  # noqa: S302 - our own worker wrote it
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != plan["parent"]:
        return 1
    child = os.fork()
    if child == 0:
        _become(plan, status_fd)
    _lead_group(child)
    code = _wait(child)
    if code is not None:
        os.write(status_fd, b'{"exit-code": %d}\n' % code)
    return 0


def _lead_group(child: int) -> None:
    """Also done by the child: whoever is first, it leads before anybody can want to end it."""
    try:
        os.setpgid(child, child)
    except (PermissionError, ProcessLookupError):
        return


def _wait(child: int) -> int | None:
    """Until nothing is left. The command's exit code; None if it was ended from outside."""
    code: int | None = None
    told = False
    while True:
        if signal.sigwait([signal.SIGTERM, signal.SIGCHLD]) == signal.SIGTERM:
            told = True
            _kill(child)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None if told else code
            if pid == 0:
                break
            if pid == child:
                ended = os.waitstatus_to_exitcode(status)
                code = ended if ended >= 0 else 128 - ended
                _kill(child)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _become(plan: dict[str, Any], status_fd: int) -> NoReturn:
    """Give up everything the plan does not grant, then be the command."""
    try:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGCHLD])
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, not by us
            signal.signal(ignored, signal.SIG_DFL)
        more = plan["processes"] + _tasks_of(plan["uid"])
        resource.setrlimit(resource.RLIMIT_NPROC, (more, more))
        for number, soft, hard in plan["rlimits"]:
            resource.setrlimit(number, (soft, hard))
        ruleset = _ruleset(plan)
        _drop(plan["uid"])
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(plan["workspace"])
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
        _load_filter(plan["seccomp"])
    # The edge of this process: it must never go on as if it were the parent, nor unrestricted.
    except BaseException as error:  # noqa: BLE001
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os.write(status_fd, b'{"failed": 1}\n')
        os._exit(1)
    _execute(plan["argv"], plan["env"])


def _execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """As os.execvpe does, which would import modules that are out of reach by now."""
    reason: OSError = FileNotFoundError(2, "No such file or directory")
    directories = [""] if "/" in argv[0] else [f"{d}/" for d in env["PATH"].split(":")]
    for directory in directories:
        try:
            os.execve(f"{directory}{argv[0]}", argv, env)  # noqa: S606 - what this program is for
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason = error
    os.write(2, os.fsencode(f"{argv[0]}: {reason.strerror}\n"))
    os._exit(127 if isinstance(reason, FileNotFoundError) else 126)


def _drop(uid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid):
        raise PermissionError(f"cannot become account {uid}")


def _tasks_of(uid: int) -> int:
    """How many there are already: the kernel counts them for the whole account."""
    return sum(_tasks(int(name), uid) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def _tasks(pid: int, uid: int) -> int:
    try:
        if os.stat(f"/proc/{pid}").st_uid != uid:  # noqa: PTH116
            return 0
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:  # it has ended
        return 0


def _ruleset(plan: dict[str, Any]) -> int:
    abi = plan["abi"]
    everything = (1 << max(bits for since, bits in _FILE_RIGHTS.items() if since <= abi)) - 1
    attributes = struct.pack(
        "=QQQ", everything, 3 if abi >= _NETWORK_SINCE else 0, 3 if abi >= _SCOPES_SINCE else 0
    )
    size = 24 if abi >= _SCOPES_SINCE else 16 if abi >= _NETWORK_SINCE else 8
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    for path in plan["readable"]:
        _allow(ruleset, path, (_EXECUTE | _READ_FILE | _READ_DIR) & everything)
    for path in plan["writable"]:
        _allow(ruleset, path, everything & ~_DEVICES)
    for path in plan["devices"]:
        _allow(ruleset, path, (_READ_FILE | _WRITE_FILE) & everything)
    return ruleset


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib would double the start-up time
        rights &= _FOR_FILES
    rule = struct.pack("=Qi", rights, fd)
    _checked(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    os.close(fd)


def _load_filter(program: bytes) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many, padding, where.
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(instructions))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.c_char_p(header))


def _prctl(option: int, *arguments: Any) -> None:
    padded = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    padded += [ctypes.c_ulong(0)] * (4 - len(padded))
    _checked(_libc.prctl(option, *padded))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    sys.exit(main())
