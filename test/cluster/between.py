"""Somebody between two machines, who changes one bit of what they say.

Bits that change below TCP do not get through it: its own checksum finds them. So the connections that a machine makes to others are
redirected to this program, on the same machine, which makes them in its place and passes on what it reads.
"""

import contextlib
import json
import select
import socket
import struct
import subprocess
import sys
import threading

MARK = 7  # of connections that are not redirected
ORIGINAL = 80  # SO_ORIGINAL_DST
# The kinds of frames between ranks, in the order of FrameKind (runtime/comm/net/Frame.h).
KINDS = ("group", "start", "channel", "value", "sent", "received", "wait", "leave", "bye", "abort", "address", "copy", "partial", "result",
         "border")


class Between:
    """Stands between a machine and those that it connects to: its ranks to those of later machines, its node to machine 0's."""

    def __init__(self, machine, keep=None):
        """What callers say is kept in files of the folder `keep`, one for each connection: `nodes-4`."""
        import pytest  # what runs on the machine has no packages

        if reason := machine.whyNoRedirect():
            pytest.skip(reason)
        self.process = machine.start(sys.executable, "-S", __file__, *filter(None, [keep]), aside=True, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, bufsize=0)
        machine.redirect(int(self.process.stdout.readline()), MARK)

    def change(self, part, *kinds, back=False, byte=0, bit=0):
        """Changes a bit of a byte of the next `part` that is on its way; with `kinds`, of a frame of one of these kinds.

        Parts between ranks are the hello, answer (`back`), proof and welcome (`back`) at the begin, then header and payload of frames; between nodes the
        hello, challenge (`back`) and proof, then header and body of messages. `back`: on its way to who has made the connection.
        """
        self.process.stdin.write(json.dumps([part, kinds, back, byte, bit]).encode() + b"\n")
        assert self._hear() == "wanted"

    def changed(self):
        """Waits until it is done. Returns what was changed: its part, kind, operation, piece and size."""
        return self._hear()

    def _hear(self, seconds=60):
        assert select.select([self.process.stdout], [], [], seconds)[0], "nothing like that has come"
        return json.loads(self.process.stdout.readline())


# The rest of this file runs on the machine.


def ranks(back):
    """The parts of what ranks say in one direction: of each the name, the size, and what is known of it. Is sent each header as it came, and
    yields then what that says."""
    if back:
        yield "answer", 68, {}
        yield "welcome", 32, {}
    else:
        yield "hello", 76, {}
        yield "proof", 32, {}
    while True:
        header = yield "header", 64, {}
        _, _, operation, _, size, piece, _, kind = struct.unpack_from("<QQQIIIIH", header)
        about = {"kind": KINDS[kind], "operation": operation, "piece": piece, "size": size}
        yield "described", 0, about
        if size:
            yield "payload", size, about


def nodes(back):
    """The same of nodes."""
    if back:
        yield "challenge", 84, {}
    else:
        yield "hello", 60, {}
        yield "proof", 32, {}
    while True:
        header = yield "header", 24, {}
        size, kind = struct.unpack_from("<IH", header)
        about = {"kind": str(kind), "size": size}
        yield "described", 0, about
        yield "body", size + 32, about


class Wanted:
    """The change that is to be made."""

    def __init__(self):
        self.lock, self.now = threading.Lock(), None

    def follow(self):
        for line in sys.stdin:
            with self.lock:
                self.now = json.loads(line)
                print(json.dumps("wanted"), flush=True)

    def apply(self, part, about, back, data):
        with self.lock:
            if not self.now or self.now[0] != part or self.now[2] != back or (self.now[1] and about.get("kind") not in self.now[1]):
                return
            _, _, _, byte, bit = self.now
            data[byte] ^= 1 << bit
            self.now = None
            print(json.dumps({"part": part, **about}), flush=True)


def receive(source, size):
    """Reads so many bytes; fewer at the end."""
    data = bytearray()
    while len(data) < size and (more := source.recv(size - len(data))):
        data += more
    return data


def carry(source, to, parts, back, wanted, kept=None):
    """Carries one direction of a connection."""
    try:
        for name, size, about in parts:
            data = receive(source, size)
            if kept:
                kept.write(data)
            if len(data) == size:
                if name == "header":
                    _, _, about = parts.send(bytes(data))
                wanted.apply(name, about, back, data)
            to.sendall(data)
            if len(data) < size:
                break
        to.shutdown(socket.SHUT_WR)
    except OSError:  # one end is gone
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def converse(caller, wanted):
    """Makes a connection in the place of the caller."""
    port, address = struct.unpack_from("!2xH4s", caller.getsockopt(socket.SOL_IP, ORIGINAL, 16))
    called = socket.socket()
    called.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    try:
        called.connect((socket.inet_ntoa(address), port))
    except OSError:
        caller.close()
        return
    for end in (caller, called):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    speak = nodes if caller.recv(8, socket.MSG_PEEK | socket.MSG_WAITALL) == b"polynet\n" else ranks
    back = threading.Thread(target=carry, args=(called, caller, speak(True), True, wanted))
    back.start()
    folder = sys.argv[1] if len(sys.argv) > 1 else ""
    with open(f"{folder}/{speak.__name__}-{caller.fileno()}", "ab", buffering=0) if folder else contextlib.nullcontext() as kept:
        carry(caller, called, speak(False), False, wanted, kept)
    back.join()
    caller.close(), called.close()


def main():
    wanted = Wanted()
    threading.Thread(target=wanted.follow, daemon=True).start()
    with socket.create_server(("", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=converse, args=(listener.accept()[0], wanted), daemon=True).start()


if __name__ == "__main__":
    main()
