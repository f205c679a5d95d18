"""Measures sums between two machines against the raw exchange of the same bytes: python tools/bench/wire.py [--rate 1gbit].

    python tools/bench/wire.py                     over the loopback, as fast as it goes
    python tools/bench/wire.py --rate 1gbit        under a token bucket of tc, which both directions share (needs root)

An all-reduce of n bytes moves n bytes each way. The raw exchange moves as many, each way at once, over one connection with
the same options, from memory and to memory of that size, and does nothing with them. Both take turns, each in a network
namespace of its own. The last line of each size is raw time / time of the all-reduce, of the medians. For the shortest,
whose time is all latency, it is how many round trips the all-reduce takes.
"""

import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 1 << 18


def exchange(connection, sent, received):
    """Sends `sent` from the first and receives into `received` to the last byte, both at once."""
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
    while sent or received:
        for _, events in selector.select():
            if events & selectors.EVENT_READ and received:
                received = received[connection.recv_into(received[:CHUNK]):]
            if events & selectors.EVENT_WRITE and sent:
                sent = sent[connection.send(sent[:CHUNK]):]
        if not sent:
            selector.modify(connection, selectors.EVENT_READ)


def raw(count, repeats):
    """Prints the median seconds of an exchange, or of a round trip if it is short, between two processes."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        connection = socket.create_connection(listener.getsockname())
    else:
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(count <= 64)
    sent, received = memoryview(bytearray(b"1" * count)), memoryview(bytearray(count))
    times = []
    for _ in range(repeats + 1):
        begin = time.monotonic()
        if count > 64:
            exchange(connection, sent, received)
        elif child:
            connection.send(bytes(count))
            connection.recv(count)
        else:
            connection.send(connection.recv(count))
        times.append(time.monotonic() - begin)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(statistics.median(times[1:]))


def inNamespace(command, rate):
    """The output of a command in a network of its own, whose loopback has that rate."""
    limit = f" && tc qdisc add dev lo root tbf rate {rate} burst 1mb latency 100ms" if rate else ""
    script = f'ip link set lo up{limit} && exec "$@"'
    return subprocess.run(["unshare", "-n", "sh", "-c", script, "sh", *command], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", help="of the network, as tc has it: 1gbit")
    parser.add_argument("--bytes", type=int, nargs="+", default=[8, 1 << 20, 64 << 20])
    parser.add_argument("--wire", choices=["tcp", "ucx"], default="tcp", help="what polyrank moves bytes by; UCX_TLS says over what UCX does")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"), help="folder of polyrank-bench-allreduce")
    parser.add_argument("--raw", type=int, nargs=2, metavar=("BYTES", "REPEATS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.raw:
        return raw(*arguments.raw)
    for count in arguments.bytes:
        repeats = 100 if count <= 64 else max(3, min(30, (64 << 20) // count))
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            theirs.append(float(inNamespace([sys.executable, __file__, "--raw", str(count), str(repeats)],
                                            arguments.rate)))
            row = inNamespace([f"{arguments.bin}/polyrank-bench-allreduce", "--machines", "2", "--bytes", str(count),
                               "--repeats", str(repeats), "--wire", arguments.wire], arguments.rate)
            ours.append(json.loads(row)["median_ms"] / 1e3)
        one, other = statistics.median(ours), statistics.median(theirs)
        print(f"{count:9} bytes: all-reduce {one * 1e3:9.3f} ms, raw {other * 1e3:9.3f} ms, "
              + (f"{one / other:.2f} round trips" if count <= 64 else f"{other / one:.2f} of raw"), flush=True)


if __name__ == "__main__":
    main()
