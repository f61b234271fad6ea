"""What every attack generator is made of: a program that draws from a seed, for so many seconds, against a running tensord.

    build/venv/bin/python tests/attack/http1_frames.py --port 8500 --rest_api_port 8501 [--seconds 60] [--seed N]

A generator is a function that takes one turn; run() repeats it on a few threads ("lanes"), each with dice of its own, and prints as its last line
a JSON object: how many requests were made, what came of them, findings (a promise that was broken) and notes (answers that somebody should
look at: each INTERNAL one, by its sentence).
"""
import argparse
import collections
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "property")]

import draw_seed  # noqa: E402
import draws  # noqa: E402

IP_BIND_ADDRESS_NO_PORT = 24   # <linux/in.h>
over = threading.Event()


class Attack:
    """One lane."""

    def __init__(self, args, lane, kind):
        self.port, self.rest_port, self.folder, self.pace = args.port, args.rest_api_port, args.folder, args.pace
        self.dice, self.lane = draws.Dice(f"{args.seed}.{lane}"), lane
        self.source = "127.1.{}.{}".format(*divmod(zlib.crc32(kind.encode()) & 0x7fff, 256))   # limits by address hold for each generator alone
        self.until = time.monotonic() + args.seconds
        self.came, self.requests, self.findings, self.notes, self.kept = collections.Counter(), 0, [], {}, {}

    def on(self):
        return time.monotonic() < self.until and not over.is_set()

    def tell(self, outcome, n=1):
        """n requests had this outcome."""
        self.requests += n
        self.came[outcome] += n

    def find(self, text):
        if len(self.findings) < 20:
            self.findings.append(text[:2000])
        self.came["findings"] += 1

    def note(self, text):
        """Something to look at; numbers and quoted texts in it are taken for the same."""
        key = re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", text[:300])
        if len(self.notes) < 200 or key in self.notes:
            n, first = self.notes.get(key, (0, text[:600]))
            self.notes[key] = (n + 1, first)

    def connect(self, port=None, receive=None):
        s = socket.socket()
        s.settimeout(10)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        try:
            s.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)   # the port is chosen when the other end is known
            s.bind((self.source, 0))
            s.connect(("127.0.0.1", port or self.rest_port))
        except OSError:
            s.close()
            raise
        return s

    def exchange(self, s, raw, stops=0.0):
        """Sends raw in pieces, then (with the chance `stops`) no more; leaves; and returns what came back, up to 1 MiB."""
        got = b""
        try:
            for piece in self.dice.pieces(raw):
                s.sendall(piece)
            if stops and self.dice.chance(stops):
                s.shutdown(socket.SHUT_WR)
            while len(got) < 1 << 20 and select.select([s], [], [], 0.03 if self.dice.chance(0.9) else 0.3)[0]:
                data = s.recv(1 << 16)
                if not data:
                    break
                got += data
        except OSError:
            pass
        self.leave(s)
        return got

    def end(self):
        """Closes what was kept from turn to turn."""
        for kept in self.kept.values():
            if hasattr(kept, "close"):
                kept.close()

    def leave(self, s):
        """As clients do: with a word, with half a word, without one."""
        how = self.dice.random()
        try:
            if how < 0.3:
                reset(s)
            elif how < 0.5:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        s.close()


def reset(s):
    """When it is closed, its peer gets a reset."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def repeat(attack, turn):
    while attack.on():
        try:
            turn(attack)
        except OSError as e:
            attack.tell(type(e).__name__)
            over.wait(0.05)
        except Exception:  # noqa: BLE001
            attack.find("the generator itself: " + traceback.format_exc())
            over.wait(0.5)
        if attack.pace:
            over.wait(attack.pace)


def parse(kind):
    ap = argparse.ArgumentParser(prog=f"{kind}.py")
    ap.add_argument("--port", type=int, default=8500)
    ap.add_argument("--rest_api_port", type=int, default=8501)
    ap.add_argument("--folder", help="where the generator may change models' base paths (run.py makes one)")
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--pace", type=float, default=0, help="seconds between two turns of a lane")
    draw_seed.add_flag(ap)
    args = ap.parse_args()
    args.seed = draw_seed.chosen(args.seed)
    return args


def run(kind, turn, lanes=4, finish=None):
    """The program. finish(attack) leaves nothing behind, once for each lane."""
    args = parse(kind)
    draw_seed.say(args.seed)
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    begun, attacks = time.monotonic(), [Attack(args, i, kind) for i in range(lanes)]
    threads = [threading.Thread(target=repeat, args=(a, turn)) for a in attacks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for a in attacks:
        if finish:
            finish(a)
        a.end()
    notes = {}
    for a in attacks:
        for key, (n, first) in a.notes.items():
            notes[key] = (notes.get(key, (0, first))[0] + n, notes.get(key, (0, first))[1])
    print(json.dumps({"kind": kind, "seconds": time.monotonic() - begun, "requests": sum(a.requests for a in attacks), "came": sum((a.came for a in attacks), collections.Counter()),
                      "findings": [f for a in attacks for f in a.findings], "notes": sorted(notes.values(), reverse=True)}), flush=True)
