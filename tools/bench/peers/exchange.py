"""The raw exchange between two machines: `bytes` each way at once over one connection, from memory and to memory.

It does nothing with what comes, so no sum of as many bytes between these machines takes less.
"""

import socket
import time

import worker  # makes the modules of tools/bench known
import wire

PORT = 23139
SECONDS = 60  # how long the second machine waits for the first


def connect(work):
    if work.rank == 0:
        with socket.create_server((work.address, PORT)) as listener:
            connection, _ = listener.accept()
    else:
        limit = time.monotonic() + SECONDS
        while True:
            try:
                connection = socket.create_connection((work.address, PORT))
                break
            except ConnectionRefusedError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    return connection


def prepare(work):
    connection = connect(work)
    sent, received = memoryview(bytearray(b"1" * work.bytes)), memoryview(bytearray(work.bytes))

    def turn(repeats):
        seconds = []
        for _ in range(repeats):
            started = time.perf_counter()
            wire.exchange(connection, sent, received)
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "losses": []}

    return turn


if __name__ == "__main__":
    worker.serve(prepare)
