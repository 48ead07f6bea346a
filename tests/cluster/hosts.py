"""Hosts in one machine: network namespaces with an address each, joined by a bridge; needs root and iproute2.

What runs in a host sees the processors, the memory and the files of the machine, but the network of a host of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CABLE = Path(__file__).with_name("cable.py")


class Cluster:
    """Hosts by name, each with an address; `slow` ones are reached by a cable with a delay and losses.

    Args:
        names: of the hosts.
        slow: those behind a slow link.
        delay: of it, in milliseconds, each way.
        loss: share of its packets that are lost.
    """

    def __init__(self, *names, slow=(), delay=20, loss=0.01):
        self.prefix = f"cst{os.getpid()}"
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}
        self.slow, self.link, self.cables = slow, (str(delay), str(loss)), []

    def __enter__(self):
        if shutil.which("ip") is None:
            pytest.skip("no iproute2: apt-get install iproute2")
        try:
            ip("netns", "add", self.space("switch"))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
        ip("-n", self.space("switch"), "link", "add", "bridge", "up", "type", "bridge")
        for number, (name, address) in enumerate(self.addresses.items(), 1):
            ip("netns", "add", self.space(name))
            if name in self.slow:
                command = [sys.executable, CABLE, self.space(name), self.space("switch"), f"port{number}", *self.link]
                cable = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                self.cables.append(cable)
                assert cable.stdout.readline() == "ready\n"
            else:
                ip("link", "add", "eth0", "netns", self.space(name), "type", "veth",
                   "peer", "name", f"port{number}", "netns", self.space("switch"))  # fmt: skip
            ip("-n", self.space("switch"), "link", "set", f"port{number}", "master", "bridge", "up")
            ip("-n", self.space(name), "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", self.space(name), "link", "set", device, "up")
        return self

    def __exit__(self, *exception):
        for name in (*self.addresses, "switch"):
            self.crash(name)
            ip("netns", "del", self.space(name))
        for cable in self.cables:
            cable.kill()
            cable.wait()

    def space(self, name):
        return f"{self.prefix}-{name}"

    def run(self, host, *command, check=True, timeout=240, **environment):
        """What a command on a host prints, as `subprocess.run` has it."""
        process = self.start(host, *command, **environment)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.crash(host)
            raise AssertionError(f"{command} on {host}: no end\n{process.communicate()[1][-3000:]}") from None
        assert process.returncode == 0 or not check, f"{command} on {host}\n{out[-2000:]}\n{err[-3000:]}"
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def start(self, host, *command, **environment):
        """A process on a host."""
        inside = ["nsenter", f"--net=/run/netns/{self.space(host)}", *map(str, command)]
        own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        return subprocess.Popen(
            inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **own, **environment}
        )

    def crash(self, host):
        """End all processes of a host, as when it loses its power."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.space(host)], check=True, capture_output=True, text=True
        ).stdout.split()
        for number in map(int, found):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def cut(self, host, cut=True):
        """Pull the cable of a host, or put it back."""
        ip("-n", self.space(host), "link", "set", "eth0", "down" if cut else "up")


def ip(*arguments):
    """Run a command of iproute2."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def until(true, what, seconds=60.0):
    """Wait for something to be true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)
    return found
