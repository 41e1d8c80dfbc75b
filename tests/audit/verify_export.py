#!/usr/bin/env python3
"""Verifies JSON Lines exports of an Airlock audit log, sharing no code with Airlock.

Follows docs/audit-format.md; needs Python 3.9 and its standard library alone.

    verify_export.py [--key HEX]... [--pin FILE]... EXPORT...

Prints one JSON object for each export. Exit status: 0 all hold, 1 one is broken, 2 wrong usage.
"""

import argparse
import hashlib
import json
import re
import struct
import sys
from datetime import datetime, timedelta

MAX_BODY = 8 * 1024 * 1024
MAX_LINE = 6 * MAX_BODY + 64 * 1024
EPOCH = datetime(1970, 1, 1)
STAGES = {"attempt": 1, "outcome": 2, "note": 3}
EVENTS = {
    name: code
    for code, name in enumerate(
        "syscall capability_check tool_execute tool_result state_transition policy_update "
        "session_mode_change sandbox_created sandbox_destroyed sandbox_failed capability_issued "
        "capability_expired approval_requested approval_decided merge_approved merge_rejected "
        "merge_undone network_connect secret_redacted injection_flagged kernel_start "
        "kernel_shutdown audit_storage_warning audit_storage_critical audit_archive_deleted "
        "audit_chain_break checkpoint trust_change plugin_skipped".split(),
        start=1,
    )
}


class Form(ValueError):
    """Text that is not in its one exact form."""


class Broken(Exception):
    """The export does not hold; `seq` is the first bad record, if it is a record."""

    def __init__(self, kind, seq=None):
        super().__init__(kind)
        self.kind, self.seq = kind, seq


# --- Ed25519 (RFC 8032, section 5.1) ------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point = add(point, point)
        number >>= 1
    return result


def same(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def decompress(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def of_full_order(point):
    """Points of small order would make a signature fit more than one message."""
    return point is not None and not same(multiply(8, point), (0, 1, 1, 0))


def signature_holds(key, message, signature):
    a, r = decompress(key), decompress(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if not (of_full_order(a) and of_full_order(r)) or s >= L:
        return False
    k = hashlib.sha512(signature[:32] + key + message).digest()
    k = int.from_bytes(k, "little") % L
    return same(multiply(s, BASE), add(r, multiply(k, a)))


# --- the canonical encoding ---------------------------------------------------------------------


def check(condition):
    if not condition:
        raise Form


def text(value):
    check(type(value) is str)
    data = value.encode("utf-8")
    return struct.pack(">I", len(data)) + data


def number(layout):
    def encode(value):
        check(type(value) is int)
        return struct.pack(layout, value)

    return encode


def texts(value):
    check(type(value) is list)
    return struct.pack(">I", len(value)) + b"".join(map(text, value))


def block(encode):
    def encode_block(value):
        data = encode(value)
        return struct.pack(">I", len(data)) + data

    return encode_block


def micros(value):
    check(type(value) is str)
    check(re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}\.[0-9]{6}Z", value))
    moment = datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ")
    check(1970 <= moment.year <= 9998)
    return (moment - EPOCH) // timedelta(microseconds=1)


def time(value):
    return struct.pack(">q", micros(value))


def event(value):
    check(type(value) is str and value in EVENTS)
    return struct.pack(">H", EVENTS[value])


def stage(value):
    check(type(value) is str and value in STAGES)
    return bytes([STAGES[value]])


def mapping(value):
    check(type(value) is dict)
    keys = sorted(value, key=lambda key: key.encode("utf-8"))
    check(keys == list(value))
    return struct.pack(">I", len(keys)) + b"".join(text(key) + text(value[key]) for key in keys)


# How an optional field looks in JSON when it is absent.
REQUIRED, NULL, OMITTED, EMPTY = "required", "null", "omitted", "empty"


def record_of(*fields):
    """An encoder of an object with these fields, in this order: (name, encoder, absent form)."""

    def encode(value):
        check(type(value) is dict)
        out, names = [], []
        for name, encoder, absent in fields:
            if absent in (REQUIRED, NULL) or name in value:
                check(name in value)
                names.append(name)
            if absent == REQUIRED:
                out.append(encoder(value[name]))
            elif absent == EMPTY:
                # A list or map: always encoded, left out of the JSON when it has no elements.
                check(name not in value or value[name])
                out.append(encoder(value[name]) if name in value else struct.pack(">I", 0))
            elif absent == NULL and value[name] is None or name not in value:
                out.append(b"\0")
            else:
                out.append(b"\1" + encoder(value[name]))
        check(names == list(value))
        return b"".join(out)

    return encode


peer = record_of(
    ("pid", number(">I"), REQUIRED),
    ("uid", number(">I"), REQUIRED),
    ("started", number(">Q"), REQUIRED),
)
caller = record_of(
    ("tenant", text, REQUIRED),
    ("user", text, REQUIRED),
    ("workspace", text, REQUIRED),
    ("session", text, NULL),
    ("plugin", text, REQUIRED),
    ("tags", texts, REQUIRED),
    ("peer", peer, NULL),
    ("sandbox", text, NULL),
    ("mode", text, NULL),
    ("phase", text, NULL),
)
decision = record_of(
    ("verdict", text, REQUIRED),
    ("rules", texts, REQUIRED),
    ("generation", text, REQUIRED),
)
request = record_of(
    ("syscall", text, REQUIRED),
    ("effects", texts, REQUIRED),
    ("paths", texts, EMPTY),
    ("host", text, OMITTED),
    ("port", number(">H"), OMITTED),
    ("command", texts, EMPTY),
    ("tool", text, OMITTED),
    ("secret", text, OMITTED),
    ("tier", text, REQUIRED),
    ("template", text, OMITTED),
    ("file_size", number(">Q"), OMITTED),
    ("caller", block(caller), REQUIRED),
)
entry = record_of(
    ("time", time, REQUIRED),
    ("event", event, REQUIRED),
    ("stage", stage, REQUIRED),
    ("action", text, OMITTED),
    ("syscall", text, OMITTED),
    ("tool", text, OMITTED),
    ("caller", block(caller), OMITTED),
    ("decision", block(decision), OMITTED),
    ("token", text, OMITTED),
    ("reason", text, OMITTED),
    ("input", text, OMITTED),
    ("output", text, OMITTED),
    ("duration", number(">Q"), OMITTED),
    ("sandbox", text, OMITTED),
    ("request", block(request), OMITTED),
    ("metadata", mapping, EMPTY),
)


# --- lines --------------------------------------------------------------------------------------


# Characters that JSON could hold as they are, but a terminal would obey.
ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def spell(value):
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", plain).encode("utf-8")


def load(line, keys):
    """The object a line spells, if it is the one spelling, with exactly these keys in order."""
    try:
        value = json.loads(line.decode("utf-8"))
        again = spell(value)
    except (ValueError, RecursionError) as error:
        raise Form from error
    # Repeated keys, spaces, other escapes and other number forms do not survive the round trip.
    check(again == line and type(value) is dict and list(value) == keys)
    return value


def unhex(value, length):
    check(type(value) is str and re.fullmatch("[0-9a-f]{%d}" % (2 * length), value))
    return bytes.fromhex(value)


def u64(value):
    check(type(value) is int and 0 <= value < 2**64)
    return value


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def read_header(line):
    keys = ["type", "format", "version", "log", "start", "last", "key", "check"]
    value = load(line, keys)
    check((value["type"], value["format"]) == ("header", "airlock-audit"))
    check(type(value["version"]) is int and value["version"] == 1)
    start = value["start"]
    check(type(start) is dict and list(start) == ["seq", "digest"])
    log, seq, last = unhex(value["log"], 16), u64(start["seq"]), u64(value["last"])
    digest = unhex(start["digest"], 32)
    key = b"\0" if value["key"] is None else b"\1" + unhex(value["key"], 32)
    stated = unhex(value["check"], 32)
    seen = sha256(
        b"airlock/audit/export\0\1", log, struct.pack(">Q", seq), digest, struct.pack(">Q", last), key
    )
    check(seen == stated and last >= seq)
    check(len(key) == 1 or of_full_order(decompress(key[1:])))
    return log, seq, digest, last, key[1:]


def read_checkpoint(line):
    keys = ["type", "version", "log", "seq", "head", "time", "key", "signature"]
    check(len(line) <= 1024)
    value = load(line, keys)
    check(value["type"] == "checkpoint" and type(value["version"]) is int and value["version"] == 1)
    result = {
        "log": unhex(value["log"], 16),
        "seq": u64(value["seq"]),
        "head": unhex(value["head"], 32),
        "key": unhex(value["key"], 32),
    }
    message = (
        b"airlock/audit/checkpoint\0\1"
        + result["log"]
        + struct.pack(">Q", result["seq"])
        + result["head"]
        + time(value["time"])
        + result["key"]
    )
    check(signature_holds(result["key"], message, unhex(value["signature"], 64)))
    return result


def read_record(line):
    """Rebuilds the canonical bytes from the fields shown; the digest is taken over those."""
    value = load(line, ["type", "version", "seq", "previous", "digest", "entry"])
    check(value["type"] == "record" and type(value["version"]) is int and value["version"] == 1)
    seq, previous = u64(value["seq"]), unhex(value["previous"], 32)
    stated = unhex(value["digest"], 32)
    try:
        body = entry(value["entry"])
    except (ValueError, struct.error) as error:
        raise Form from error
    check(len(body) <= MAX_BODY)
    prefix = b"airlock/audit/record\0\1" + struct.pack(">Q", seq) + previous
    seen = sha256(prefix, struct.pack(">I", len(body)), body)
    return seq, previous, stated, seen, value["entry"]


# --- the chain ----------------------------------------------------------------------------------


class Chain:
    def __init__(self, log, seq, digest, keys, pins):
        self.log, self.seq, self.digest, self.keys = log, seq, digest, keys
        self.records = self.checkpoints = 0
        if seq == 0 and digest != sha256(b"airlock/audit/genesis\0", log):
            raise Broken("origin", 0)
        pins = sorted(pins, key=lambda pin: pin["seq"])
        for pin in pins:
            if pin["log"] != log:
                raise Broken("other_log", pin["seq"])
        if pins and pins[0]["seq"] < seq:
            raise Broken("unmet", pins[0]["seq"])
        self.pins = pins
        self.meet_pins()

    def attest(self, at, checkpoint):
        if checkpoint["log"] != self.log:
            raise Broken("other_log", at)
        if self.keys and checkpoint["key"] not in self.keys:
            raise Broken("bad_checkpoint", at)
        if (checkpoint["seq"], checkpoint["head"]) != (self.seq, self.digest):
            raise Broken("rewritten", self.seq)
        self.checkpoints += 1

    def meet_pins(self):
        while self.pins and self.pins[0]["seq"] == self.seq:
            self.attest(self.seq, self.pins.pop(0))

    def push(self, seq, previous, stated, seen, fields):
        expected = self.seq + 1
        if stated != seen:
            raise Broken("edited", expected)
        if seq != expected:
            raise Broken("gap" if seq > expected else "reordered", expected)
        if previous != self.digest:
            raise Broken("unlinked", expected)
        if fields["event"] == "checkpoint":
            self.push_recorded(seq, fields)
        self.seq, self.digest = seq, stated
        self.records += 1
        self.meet_pins()

    def push_recorded(self, seq, fields):
        signed = fields.get("metadata", {}).get("checkpoint", "")
        try:
            checkpoint = read_checkpoint(signed.encode("utf-8"))
        except ValueError as error:
            raise Broken("bad_checkpoint", seq) from error
        self.attest(seq, checkpoint)

    def finish(self, last):
        if self.pins:
            raise Broken("truncated", self.seq + 1)
        if self.seq < last:
            raise Broken("short", self.seq + 1)


class Export:
    def __init__(self, source, keys, pins):
        self.source, self.keys, self.pins, self.line = source, keys, pins, 0

    def next(self):
        self.line += 1
        return self.source.readline(MAX_LINE)

    def verify(self):
        line = self.next()
        try:
            check(line.endswith(b"\n"))
            log, seq, digest, last, key = read_header(line[:-1])
        except ValueError as error:
            raise Broken("header") from error
        # Whom to expect: whoever was named, or else signed a pin, or else is named in the header.
        keys = self.keys or [pin["key"] for pin in self.pins] or ([key] if key else [])
        chain = Chain(log, seq, digest, keys, self.pins)
        while line := self.next():
            self.take(chain, last, line)
        chain.finish(last)
        return chain

    def take(self, chain, last, line):
        is_checkpoint = line.startswith(b'{"type":"checkpoint",')
        to_come = chain.seq < last
        if not line.endswith(b"\n"):
            kind = "checkpoint" if is_checkpoint else "surplus"
            raise Broken("record", chain.seq + 1) if to_come else Broken(kind)
        try:
            if is_checkpoint:
                chain.attest(chain.seq, read_checkpoint(line[:-1]))
            elif to_come:
                chain.push(*read_record(line[:-1]))
            else:
                raise Broken("surplus")
        except ValueError as error:
            raise (Broken("checkpoint") if is_checkpoint else Broken("record", chain.seq + 1)) from error


def main():
    parser = argparse.ArgumentParser(description="verify exports of an Airlock audit log")
    parser.add_argument("--key", action="append", default=[], help="public key to expect, in hex")
    parser.add_argument("--pin", action="append", default=[], help="file with checkpoints, one a line")
    parser.add_argument("export", nargs="+")
    options = parser.parse_args()
    pins = []
    try:
        keys = [unhex(key, 32) for key in options.key]
        for name in options.pin:
            with open(name, "rb") as file:
                lines = file.read().removesuffix(b"\n").split(b"\n")
                pins.extend(read_checkpoint(line) for line in lines)
        check(all(pin["key"] in keys for pin in pins) or not keys)
    except ValueError:
        parser.error("a key or a pinned checkpoint is not valid")
    holds = True
    for name in options.export:
        with open(name, "rb") as file:
            export = Export(file, keys, pins)
            try:
                chain = export.verify()
                result = {"verdict": "ok", "records": chain.records, "checkpoints": chain.checkpoints}
            except Broken as broken:
                holds = False
                result = {"verdict": "broken", "kind": broken.kind, "seq": broken.seq, "line": export.line}
        print(json.dumps(result))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
