"""Ways out of a sandbox. Each is a program that prints ESCAPED if it got out.

`outside` says as whom the same program does get out without a sandbox, which shows that it would
notice: as root, as the account the sandboxes run as, or nobody (then the reason is in a comment).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What every attempt begins with. `given` is what the test tells it about the machine.
PRELUDE = """
import array, ctypes, fcntl, glob, json, os, pathlib, signal, socket, sys
given = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine == "aarch64"
def worked(result):
    return result != -1
def number(x86, generic):
    return generic if arm else x86
def any_of(reaches):
    for pid in (1, given["victim"]):
        try:
            if reaches(pid):
                return True
        except OSError as error:
            print("held by", error, file=sys.stderr)
    return False
def connects(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(2)
    s.connect(address)
    return True
def attempt():
"""
CODA = """
try:
    print("ESCAPED" if attempt() else "held")
except OSError as error:
    print("held:", error)
"""

Outside = Literal["root", "account", "nobody"]


@dataclass(frozen=True)
class Attempt:
    name: str
    outside: Outside
    body: str

    @property
    def program(self) -> str:
        lines = "".join(f"    {line}\n" for line in self.body.strip().splitlines())
        return PRELUDE + lines + CODA


FILES = [
    Attempt("read the shadow file", "root", "return open('/etc/shadow').read()"),
    Attempt("list the home of root", "root", "return os.listdir('/root') is not None"),
    Attempt("read a file of the host", "account", "return open(given['readable']).read()"),
    Attempt(
        "change a file of the host", "account", "return open(given['writable'], 'a').write('x')"
    ),
    Attempt(
        "truncate a file of the host",
        "account",
        "os.truncate(given['writable'], 0)\nreturn True",
    ),
    Attempt(
        "make a file beside the workspace",
        "account",
        "pathlib.Path(given['open_directory'], 'made').touch()\nreturn True",
    ),
    Attempt(
        "read a workspace of another tenant",
        "account",
        "return open(given['other_workspace'] + '/notes').read()",
    ),
    Attempt(
        "write to a workspace of another tenant",
        "account",
        "return open(given['other_workspace'] + '/notes', 'a').write('x')",
    ),
    Attempt(
        "follow a symlink out of the workspace",
        "account",
        "os.symlink(given['readable'], 'link-%d' % os.getpid())\n"
        "return open('link-%d' % os.getpid()).read()",
    ),
    Attempt(
        "climb out of the workspace with ..",
        "account",
        "up = '../' * 40\nreturn open(up + given['readable']).read()",
    ),
    Attempt(
        "link a file of the host into the workspace",
        "account",
        "os.link(given['own'], 'hard-%d' % os.getpid())\n"
        "return open('hard-%d' % os.getpid()).read()",
    ),
    Attempt(
        "change the mode of a file of the worker",
        "root",
        "os.chmod(given['of_worker'], 0o640)\nreturn True",
    ),
    Attempt(
        "change the times of a file of the worker",
        "root",
        "os.utime(given['of_worker'], (1, 1))\nreturn True",
    ),
    Attempt(
        "write to /usr",
        "root",
        "path = pathlib.Path('/usr/agentos-escape-%d' % os.getpid())\n"
        "path.touch()\npath.unlink()\nreturn True",
    ),
    Attempt("list /sys", "account", "return os.listdir('/sys/kernel')"),
    Attempt(
        "leave the control group",
        "root",
        "for place in glob.glob('/sys/fs/cgroup/cgroup.procs') + "
        "glob.glob('/sys/fs/cgroup/*/cgroup.procs'):\n"
        "    open(place, 'w').write('0')\n    return True",
    ),
    Attempt("read the kernel's log", "root", "return os.open('/dev/kmsg', os.O_RDONLY)"),
    Attempt(
        "make a device",
        "root",
        "name = 'device-%d' % os.getpid()\n"
        "os.mknod(name, 0o20666, os.makedev(1, 3))\nos.unlink(name)\nreturn True",
    ),
    Attempt(
        "use a file the worker has open",
        "account",
        "for fd in range(3, 512):\n"
        "    try:\n        os.fstat(fd)\n    except OSError:\n        continue\n"
        "    return True",
    ),
]

PROCESSES = [
    Attempt(
        "read the worker's environment",
        "root",
        "return open('/proc/%d/environ' % given['worker'], 'rb').read()",
    ),
    Attempt("inherit the worker's secrets", "root", "return 'AGENTOS_CANARY' in os.environ"),
    Attempt(
        "go through the root of another process",
        "root",
        "return any_of(lambda pid: open('/proc/%d/root%s' % (pid, given['readable'])).read())",
    ),
    Attempt(
        "read the command line of another process",
        "account",
        "return b'3600' in open('/proc/%d/cmdline' % given['victim'], 'rb').read()",
    ),
    Attempt(
        "read the memory of another process",
        "account",
        "return open('/proc/%d/mem' % given['victim'], 'rb') is not None",
    ),
    Attempt(
        "signal another process",
        "account",
        "os.kill(given['victim'], signal.SIGCONT)\nreturn True",
    ),
    Attempt(
        "signal all processes",
        "account",
        # The first process inside does not count among `all`, and there is no other.
        "os.kill(-1, 0)\nos.kill(given['victim'], 0)\nreturn True",
    ),
    Attempt(
        "trace another process",
        "account",
        "attached = worked(libc.ptrace(16, given['victim'], 0, 0))\n"
        "if attached:\n    os.waitpid(given['victim'], 0x40000000)\n"
        "    libc.ptrace(17, given['victim'], 0, 0)\nreturn attached",
    ),
    Attempt(
        "trace a child of its own",
        "account",
        "child = os.fork()\n"
        "if child == 0:\n    signal.pause()\n"
        "attached = worked(libc.ptrace(16, child, 0, 0))\n"
        "os.kill(child, signal.SIGKILL)\nreturn attached",
    ),
    Attempt(
        "change the limits of another process",
        "account",
        "import resource\n"
        "resource.prlimit(given['victim'], resource.RLIMIT_CORE, (0, 0))\nreturn True",
    ),
    Attempt(
        "change the priority of another process",
        "account",
        "os.setpriority(os.PRIO_PROCESS, given['victim'], 19)\nreturn True",
    ),
    Attempt(
        "share memory with another process",
        "account",
        "return worked(libc.shmget(given['shared_memory'], 4096, 0o666))",
    ),
]

PRIVILEGES = [
    Attempt(
        "mount a file system",
        "root",
        "libc.unshare(0x20000)\n"
        "libc.mount(None, b'/', None, (1 << 18) | (1 << 14), None)\n"
        "return worked(libc.mount(b'none', os.getcwdb(), b'tmpfs', 0, None))",
    ),
    Attempt(
        "make /usr writable again",
        "root",
        "libc.unshare(0x20000)\n"
        "libc.mount(None, b'/', None, (1 << 18) | (1 << 14), None)\n"
        "return worked(libc.mount(b'/usr', b'/usr', None, 4096, None))",
    ),
    Attempt("unshare a user namespace", "account", "return worked(libc.unshare(0x10000000))"),
    Attempt(
        "clone into a user namespace",
        "account",
        "pid = libc.syscall(number(56, 220), 0x10000000 | 17, 0, 0, 0, 0)\n"
        "if pid == 0:\n    os._exit(0)\nreturn worked(pid)",
    ),
    Attempt(
        "clone3 into a user namespace",
        "account",
        "arguments = array.array('Q', [0x10000000, 0, 0, 0, 17, 0, 0, 0])\n"
        "address, length = arguments.buffer_info()\n"
        "pid = libc.syscall(435, ctypes.c_void_p(address), ctypes.c_size_t(64))\n"
        "if pid == 0:\n    os._exit(0)\nreturn worked(pid)",
    ),
    Attempt(
        "enter the namespaces of another process",
        "root",
        "return any_of(lambda pid: worked("
        "libc.setns(os.open('/proc/%d/ns/net' % pid, os.O_RDONLY), 0)))",
    ),
    Attempt("change the root", "root", "os.chroot('.')\nreturn True"),
    Attempt("become root", "root", "os.setuid(0)\nreturn True"),
    Attempt(
        "gain rights from a set-uid program",
        "account",
        # Without this bit the kernel honours set-uid; 39 asks for it.
        "return libc.prctl(39, 0, 0, 0, 0) == 0",
    ),
    Attempt(
        "keep a capability",
        "root",
        "header = array.array('I', [0x20080522, 0])\n"
        "sets = array.array('I', [0] * 6)\n"
        "libc.capget(ctypes.c_void_p(header.buffer_info()[0]), "
        "ctypes.c_void_p(sets.buffer_info()[0]))\n"
        "return any(sets)",
    ),
    Attempt(
        "use the kernel's keyrings",
        "account",
        "return worked(libc.syscall(number(250, 219), 0, -3, 1))",
    ),
    Attempt(
        "load a BPF program",
        "root",
        "space = ctypes.create_string_buffer(128)\n"
        "space[0:20] = bytes(array.array('I', [2, 4, 8, 1, 0]))\n"
        "return worked(libc.syscall(number(321, 280), 0, space, 128))",
    ),
    Attempt(
        "set up an io_uring",
        "account",
        "space = ctypes.create_string_buffer(120)\nreturn worked(libc.syscall(425, 4, space))",
    ),
    Attempt(
        "set the name of the machine",
        "root",
        "name = os.uname().nodename.encode()\nreturn worked(libc.sethostname(name, len(name)))",
    ),
    Attempt(
        "type into a terminal",
        "root",
        "leader, follower = os.openpty()\n"
        "os.setsid()\nfcntl.ioctl(follower, 0x540E, 0)\n"
        "fcntl.ioctl(follower, 0x5412, b'x')\nreturn True",
    ),
]

NETWORK = [
    Attempt(
        "reach the socket of PostgreSQL",
        "root",
        "return connects(socket.AF_UNIX, given['postgres'])",
    ),
    Attempt(
        "reach the port of NATS",
        "account",
        "return connects(socket.AF_INET, ('127.0.0.1', given['nats']))",
    ),
    Attempt(
        "reach a socket that everybody may use",
        "account",
        "return connects(socket.AF_UNIX, given['socket'])",
    ),
    Attempt(
        "reach an abstract socket",
        "account",
        "return connects(socket.AF_UNIX, '\\0' + given['abstract'])",
    ),
    Attempt(
        "reach this machine by its address in the network",
        "account",
        "return connects(socket.AF_INET, tuple(given['address']))",
    ),
    Attempt(
        "send a datagram to this machine",
        "account",
        # Whoever listens there answers; a network of one's own has nobody at that port.
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.settimeout(2)\n"
        "s.connect(('127.0.0.1', given['datagrams']))\n"
        "s.send(b'x')\nreturn s.recv(1)",
    ),
    Attempt(
        "ask the virtual machine's host",
        "nobody",  # not every kernel that runs the tests has vsock
        "socket.socket(40, socket.SOCK_STREAM)\nreturn True",
    ),
    Attempt(
        "read packets",
        "root",
        "socket.socket(17, socket.SOCK_RAW, 0)\nreturn True",
    ),
    Attempt(
        "use the kernel's cryptography",
        "nobody",  # not every kernel that runs the tests has it
        "socket.socket(38, socket.SOCK_SEQPACKET)\nreturn True",
    ),
]

ATTEMPTS = [*FILES, *PROCESSES, *PRIVILEGES, *NETWORK]
