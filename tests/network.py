"""A network on this machine: each member in a namespace of its own, with a cable to a bridge that can be pulled out.

It takes the rights of root. Nothing of it is left when this process and those in the namespaces have ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import subprocess
import threading
from pathlib import Path

LOOPBACK = "127.0.0.1"
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class NoNetwork:
    """All members on loopback, where no cable can be cut."""

    can_be_cut = False

    def address(self, _):
        return LOOPBACK

    def inside(self, _):
        return contextlib.nullcontext()

    def remove(self):
        pass


class Network:
    """A bridge, on which this process is, and namespaces with a cable to it. Members are known by name."""

    can_be_cut = True

    def __init__(self, *members):
        self._name, self._spaces = f"sky{secrets.token_hex(3)}", {}
        self._net = _free_net()
        self._numbers = {name: number for number, name in enumerate(("here", *members), 1)}
        _ip("link", "add", self._name, "type", "bridge")
        try:
            _ip("addr", "add", f"{self.address('here')}/24", "dev", self._name)
            _ip("link", "set", self._name, "up")
            for name in members:
                self._join(name)
        except BaseException:
            self.remove()
            raise

    def address(self, name):
        return f"{self._net}.{self._numbers[name]}"

    @contextlib.contextmanager
    def inside(self, name):
        """What this thread starts meanwhile is in the namespace; other threads are not concerned."""
        if name not in self._spaces:
            yield
            return
        with Path(f"/proc/self/task/{threading.get_native_id()}/ns/net").open() as home:
            _enter(self._spaces[name])
            try:
                yield
            finally:
                _enter(home.fileno())

    def cut(self, name):
        """Whatever is sent to it or by it is lost; connections stay open at both ends."""
        _ip("link", "set", self._cable(name), "down")

    def mend(self, name):
        _ip("link", "set", self._cable(name), "up")

    def remove(self):
        for name, space in self._spaces.items():
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("link", "del", self._cable(name))
            os.close(space)
        self._spaces = {}
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._name)

    def _cable(self, name):
        return f"{self._name}.{self._numbers[name]}"

    def _join(self, name):
        self._spaces[name] = space = _new_namespace()
        cable = self._cable(name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", f"{cable}e", "netns", f"/proc/self/fd/{space}")
        _ip("link", "set", cable, "master", self._name)
        _ip("link", "set", cable, "up")
        with self.inside(name):
            _ip("link", "set", "lo", "up")
            _ip("addr", "add", f"{self.address(name)}/24", "dev", f"{cable}e")
            _ip("link", "set", f"{cable}e", "up")


def network(*members):
    """Namespaces if this process has the rights, otherwise loopback."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return NoNetwork()
    try:
        return Network(*members)
    except (OSError, subprocess.CalledProcessError):
        return NoNetwork()


def _new_namespace():
    """An open file of a namespace that has been made by a thread that ends."""
    made = []

    def make():
        if _LIBC.unshare(_CLONE_NEWNET):
            made.append(OSError(ctypes.get_errno(), "no network namespace can be made"))
            return
        made.append(os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _enter(space):
    if _LIBC.setns(space, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a network namespace cannot be entered")


def _free_net():
    """The first three numbers of addresses that nobody on this machine has."""
    routes = _ip("route")
    while True:
        net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
        if f"{net}." not in routes:
            return net


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, pass_fds=_fds(arguments))
    return done.stdout


def _fds(arguments):
    """Files that the program must inherit, because an argument names them."""
    prefix = "/proc/self/fd/"
    return [int(one.removeprefix(prefix)) for one in arguments if one.startswith(prefix)]
