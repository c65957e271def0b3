#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a nuisance of itself on the agents' port, a few dozen times a second, until it is killed.

    attacker.py scan|garbage|version|stall|syn ADDRESS...

scan connects to many ports; garbage sends random bytes; version an opening of another protocol version; stall opens
connections and leaves them half way through the hello; syn sends the first packet of connections from addresses that
nobody has, and never the next one.
"""

import ipaddress
import itertools
import os
import random
import socket
import struct
import sys
import time

PORT = 7070
PER_SECOND = 40
HELD = 256


def connect(address, port):
    connection = socket.socket()
    connection.settimeout(0.3)
    try:
        connection.connect((address, port))
    except OSError:
        connection.close()
        return None
    return connection


def send(address, data):
    connection = connect(address, PORT)
    if not connection:
        return None
    try:
        connection.sendall(data)
    except OSError:
        pass
    return connection


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def syn_packet(source, target):
    ports = struct.pack(">HH", random.randint(20000, 60000), PORT)
    rest = struct.pack(">IIBBH", random.getrandbits(32), 0, 5 << 4, 2, 64240)
    pseudo = source.packed + target.packed + struct.pack(">BBH", 0, socket.IPPROTO_TCP, 20)
    tcp = ports + rest + struct.pack(">HH", checksum(pseudo + ports + rest + bytes(4)), 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, source.packed, target.packed)
    return ip + tcp


def main():
    mode, addresses = sys.argv[1], sys.argv[2:]
    targets, ports = itertools.cycle(addresses), itertools.cycle([*range(1, 1025), PORT, PORT, PORT])
    held = []
    raw = None
    if mode == "syn":
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    # Nobody has the last addresses of the subnet.
    strangers = itertools.cycle(range(200, 250))
    print("begun", flush=True)
    while True:
        address = next(targets)
        connection = None
        if mode == "scan":
            connection = connect(address, next(ports))
        elif mode == "garbage":
            connection = send(address, os.urandom(random.randint(1, 4096)))
        elif mode == "version":
            connection = send(address, struct.pack(">4sHBB", b"mstr", random.choice([0, 2, 7, 65535]), 1, 0) + bytes(504))
        elif mode == "stall":
            connection = send(address, struct.pack(">4sHBB", b"mstr", 1, 1, 0)[: random.randint(0, 8)])
            held.append(connection)
            connection = held.pop(0) if len(held) > HELD else None
        else:
            target = ipaddress.IPv4Address(address)
            source = ipaddress.IPv4Address(int(target) & ~0xff | next(strangers))
            raw.sendto(syn_packet(source, target), (address, 0))
        if connection:
            connection.close()
        time.sleep(1 / PER_SECOND)


main()
