#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and an engine's socket, and writes down each request's method and path.

    record_calls.py ENGINE_SOCKET SOCKET FILE

A request begins at the start of a connection, and after each one's end; bodies are told by Content-Length, for what clients of
this API send never is chunked.
"""
import re
import socket
import socketserver
import sys
import threading

HEAD = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r\n(?:.*\r\n)*?\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Recorder(socketserver.BaseRequestHandler):
    def handle(self):
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(sys.argv[1])
        threading.Thread(target=self.answers, args=(engine,), daemon=True).start()
        waiting, body = b"", 0
        while data := self.request.recv(65536):
            engine.sendall(data)
            waiting += data
            while waiting:
                taken = min(body, len(waiting))
                waiting, body = waiting[taken:], body - taken
                head = HEAD.match(waiting) if waiting and not body else None
                if not head:
                    break
                with open(sys.argv[3], "ab") as calls:
                    calls.write(head.group(1) + b" " + head.group(2) + b"\n")
                length = LENGTH.search(head.group(0))
                waiting, body = waiting[head.end():], int(length.group(1)) if length else 0
        engine.close()

    def answers(self, engine):
        try:
            while data := engine.recv(65536):
                self.request.sendall(data)
        except OSError:
            return  # one of the two has hung up


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


if __name__ == "__main__":
    with Server(sys.argv[2], Recorder) as server:
        server.serve_forever()
