"""The attacks of http2_attacks.py at full size: the table of docs/grpc.md, one row an attack. Some minutes and up to 4 GB.

    TENSORD=build/release/tensord build/venv/bin/python tests/e2e/grpc_attack_table.py
"""
import sys

import grpc

import http2_attacks as attacks
from server import Server

ROWS = (
    ("endless HPACK integer, 9 MB", attacks.hpack_integer, 9000000),
    ("header string of 300 MB", attacks.header_string, 300 << 20),
    ("1 million CONTINUATION frames", attacks.continuations, 1000000),
    ("100,000 rapid resets", attacks.rapid_resets, 100000),
    ("20,000 open streams", attacks.open_streams, 20000),
    ("200,000 open streams of 200 connections", attacks.streams_of_many, 200000),
    ("1 million pings and settings, answers unread", attacks.pings, 1000000),
    ("20,000 connections that are reset at once", attacks.vanishing, 20000),
    ("gzip message, 1 MB for 1 GB", attacks.gzip_message, 1 << 30),
)


def row(name, attack, size):
    d = Server("--max_connections_per_address=16384")
    try:
        with attacks.Cost(d.proc.pid, d.port) as c:
            attack(d.port, size)
        lives = d.proc.poll() is None
        print(f"| {name} | {c.seconds:.1f} s | {c.cpu_s:.1f} s | {c.peak_mb:.0f} MB | {c.worst_s * 1000:.0f} ms | {'' if lives and not c.failed else f'{c.failed} failed' if lives else 'DEAD'} |", flush=True)
    except (grpc.RpcError, OSError) as e:
        print(f"| {name} | {type(e).__name__}: {str(e)[:80]!r}, daemon {'lives' if d.proc.poll() is None else 'DEAD'} |", flush=True)
    finally:
        d.stop()


def main():
    print("| attack | took | processor | memory | another client waited | |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for r in ROWS:
        if len(sys.argv) < 2 or any(w in r[0] for w in sys.argv[1:]):
            row(*r)


if __name__ == "__main__":
    main()
