"""Verifies a job's history without Hookwright: python3 verify_history.py FILE [HASH]

FILE (`-`: standard input) is what `hookwright jobs history JOB --output json` prints; HASH is the last record's hash as it was kept elsewhere
(`hookwright audit head`). Nothing but Python's standard library is needed. docs/history.md describes the algorithm.
"""

import hashlib
import json
import sys


class Number(str):
    """A number as it is written: reading it as a float could write it differently."""


def canonical(value) -> str:
    """Keys sorted by code point, no spaces, only what JSON must escape escaped, numbers as they are written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{canonical(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def sha256(value) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def without_values(part, seq: int):
    """A part of a record as its hash sees it: of a stored value the digest and the length, after both were checked."""
    if isinstance(part, list):
        return [without_values(item, seq) for item in part]
    if not isinstance(part, dict):
        return part
    if set(part) != {"sha256", "bytes", "value"}:
        return {key: without_values(item, seq) for key, item in part.items()}
    if sha256(part["value"]) != part["sha256"]:
        sys.exit(f"record {seq}: a value was changed")
    return {"sha256": part["sha256"], "bytes": part["bytes"]}


def main(file: str, kept: str = "") -> None:
    try:
        with open(sys.stdin.fileno() if file == "-" else file, encoding="utf-8", closefd=file != "-") as opened:
            history = json.load(opened, parse_int=Number, parse_float=Number)["history"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{file}: no history can be read from it: {error!r}")
    before = "0" * 64
    for seq, record in enumerate(history):
        if record["seq"] != str(seq) or record["prev"] != before:
            sys.exit(f"record {seq}: it does not follow the record before it")
        before = record.pop("hash")
        if sha256(without_values(record, seq)) != before:
            sys.exit(f"record {seq}: it was changed")
    if kept and kept != before:
        sys.exit(f"the last hash is {before}: the end is cut off, or the whole was rewritten")
    print(f"{len(history)} records, intact; the last hash is {before}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python3 verify_history.py FILE|- [HASH]")
    main(*sys.argv[1:])
