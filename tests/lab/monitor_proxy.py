# SPDX-License-Identifier: Apache-2.0
"""An Engine's socket with a listener: passes everything on and keeps the replies."""

import os
import shutil
import socket
import tempfile
import threading


class Proxy:
    def __init__(self, target):
        self.target, self.heard = target, []
        self.folder = tempfile.mkdtemp(prefix="muster-proxy-")
        self.path = os.path.join(self.folder, "sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        shutil.rmtree(self.folder)

    @property
    def replies(self):
        """[(path, body)] of all that was asked, in the order in which it was; whole once the client has ended well."""
        return [(path, body_of(bytes(reply))) for path, reply in self.heard]

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        """One request a connection: the Engine is asked to close it, and the client sees that."""
        with client, socket.socket(socket.AF_UNIX) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                part = client.recv(65536)
                if not part:
                    return
                head += part
            first, rest = head.split(b"\r\n", 1)
            server.connect(self.target)
            server.sendall(first + b"\r\nConnection: close\r\n" + rest)
            reply = bytearray()
            self.heard.append((first.split()[1].decode(), reply))
            try:
                while part := server.recv(65536):
                    reply += part  # first: who has got the last part may be done before this thread goes on
                    client.sendall(part)
            except OSError:
                pass  # the client has had enough


def body_of(reply):
    head, _, body = reply.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole += body[:int(size, 16)]
        body = body[int(size, 16) + 2:]
    return whole
