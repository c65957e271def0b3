#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What else may listen on the agents' port: takes connections and says nothing, or the wrong things.

    stranger.py silent|talking PORT
"""

import itertools
import selectors
import socket
import sys

WORDS = [b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
         b"MSTR\x00\x00\x00\x01" + bytes(range(256)) * 64, bytes(64), b"\xff" * 4096]


def main():
    is_talking, port = sys.argv[1] == "talking", int(sys.argv[2])
    listener = socket.create_server(("", port), backlog=64)
    watched = selectors.DefaultSelector()
    watched.register(listener, selectors.EVENT_READ)
    words = itertools.cycle(WORDS)
    print("listening", flush=True)
    while True:
        for key, _ in watched.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                watched.register(connection, selectors.EVENT_READ)
                if is_talking:
                    try:
                        connection.sendall(next(words))
                    except OSError:
                        pass
                continue
            try:
                heard = key.fileobj.recv(65536)
            except OSError:
                heard = b""
            if not heard:
                watched.unregister(key.fileobj)
                key.fileobj.close()


main()
