# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that is looked into and typed at, over its DevTools protocol (a WebSocket, RFC 6455)."""

import base64
import http.client
import json
import os
import pathlib
import socket
import struct
import subprocess
import time

PATIENCE_S = 60
KEYS = {"Tab": 9, "Backspace": 8, "Enter": 13, " ": 32, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}


class Browser:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-port=0", f"--user-data-dir={folder}", "--window-size=1280,1000", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = folder / "DevToolsActivePort"
        self.wait("the browser", lambda: port_file.exists() and port_file.read_text().count("\n"))
        self.port = int(port_file.read_text().split()[0])
        page = self.wait("a tab", lambda: [t for t in self.targets() if t["type"] == "page"])[0]
        self.socket = self.connect(page["webSocketDebuggerUrl"].split(f":{self.port}", 1)[1])
        self.number, self.errors, self.buffer = 0, [], b""
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    @staticmethod
    def wait(what, check):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                found = check()
            except (OSError, http.client.HTTPException):
                found = None
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not in {PATIENCE_S} s: {what}")

    def targets(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", "/json/list")
        return json.loads(connection.getresponse().read())

    def connect(self, path):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        client.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\n"
                        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                        "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1)
        assert b" 101 " in head.split(b"\r\n", 1)[0], head
        return client

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = struct.pack("!B", 0x80 | len(data)) if len(data) < 126 else struct.pack("!BH", 0x80 | 126, len(data))
        assert len(data) < 65536
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.socket.sendall(b"\x81" + size + mask + masked)

    def exactly(self, count):
        while len(self.buffer) < count:
            part = self.socket.recv(65536)
            assert part, "the browser has closed the connection"
            self.buffer += part
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def receive(self):
        whole = b""
        while True:
            first, second = self.exactly(2)
            size = second & 0x7f
            if size == 126:
                size = struct.unpack("!H", self.exactly(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.exactly(8))[0]
            whole += self.exactly(size)
            if first & 0x80:
                return json.loads(whole)

    def call(self, method, **parameters):
        self.number += 1
        self.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                assert "error" not in message, (method, message)
                return message["result"]
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
            elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            elif (message.get("method") == "Runtime.consoleAPICalled"
                  and message["params"]["type"] in ("error", "warning")):
                self.errors.append(str(message["params"]["args"]))

    def open(self, address):
        self.call("Page.navigate", url=address)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def until(self, expression):
        return self.wait(expression, lambda: self.value(expression))

    def press(self, key, shift=False):
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper())),
                  "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common,
                  **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
