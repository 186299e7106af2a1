"""Disks that can be full, where this process may mount them; otherwise plain folders."""

from __future__ import annotations

import os
import subprocess


class Disk:
    """A folder that has a file system of its own."""

    def __init__(self, folder, megabytes):
        self.folder, self._megabytes = folder, megabytes
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "skyband-faults", folder],
            check=False,
            capture_output=True,
        )
        self.can_be_full = mounted.returncode == 0
        folder.chmod(0o777)

    def fill(self):
        """It has no room from now on."""
        room = os.statvfs(self.folder)
        self._resize(max(1, room.f_blocks - room.f_bfree) * room.f_frsize)

    def clear(self):
        """It has room again."""
        self._resize(self._megabytes << 20)

    def _resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.folder], check=True, capture_output=True)

    def remove(self):
        if self.can_be_full:
            subprocess.run(["umount", "--lazy", self.folder], check=True)
            self.can_be_full = False
