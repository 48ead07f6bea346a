"""A slow link between two network namespaces: each packet comes later, and some are lost (as `tc netem` does it).

python cable.py HOST SWITCH PORT DELAY_MS LOSS
"""

import contextlib
import ctypes
import fcntl
import os
import random
import struct
import sys
import threading
import time
from collections import deque

TUNSETIFF, TAP = 0x400454CA, 0x1002  # a device of whole frames, without a header of its own
NEW_NET = 0x40000000


def device(space, name):
    """A new network device in a namespace, as a file of its frames."""
    with open(f"/run/netns/{space}") as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), NEW_NET):
            raise OSError(ctypes.get_errno(), f"cannot enter {space}")
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), TAP))
    return file


def carry(source, target, delay, loss, seed):
    """Write each frame that comes to the other end, later; one in so many never."""
    draw, waiting, there = random.Random(seed), deque(), threading.Condition()

    def write():
        while True:
            with there:
                while not waiting:
                    there.wait()
                due, frame = waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            with contextlib.suppress(OSError):  # that end is down: the frame is lost
                os.write(target, frame)

    threading.Thread(target=write, daemon=True).start()
    while True:
        try:
            frame = os.read(source, 1 << 16)
        except OSError:
            time.sleep(delay)
            continue
        if draw.random() >= loss:
            with there:
                waiting.append((time.monotonic() + delay, frame))
                there.notify()


if __name__ == "__main__":
    host, switch, port, delay, loss = sys.argv[1:]
    ends = device(host, "eth0"), device(switch, port)
    print("ready", flush=True)
    for number, (source, target) in enumerate((ends, ends[::-1])):
        threading.Thread(target=carry, args=(source, target, float(delay) / 1000, float(loss), number)).start()
