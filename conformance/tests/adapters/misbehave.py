"""Answers every case about integers, but once runs its argument instead: `hang()`, `leave(3)`.

Arguments: what it does, in Python; when: at the command `start` or `stop`, at an input of a data
type, or at `every` case; and a file that gets a line a start.
"""

import fcntl
import itertools
import json
import os
import subprocess
import sys
import time
from typing import Any

WAY, VICTIM, STARTS = (*sys.argv[1:], "", "", "")[:3]
HELLO = {
    "protocol": 1,
    "name": "misbehaving",
    "language": "Python",
    "version": "1",
    "operators": ["nonzero_coordinates"],
}


def honest(seq: int, case: dict[str, Any]) -> dict[str, Any]:
    x, asked = case["inputs"]["InputTensor"], case["outputs"]
    places = itertools.product(*map(range, x["sizes"]))
    rows = list(itertools.compress(places, map(int, x["data"])))
    *_, size, width = asked["OutputCoordinatesTensor"]["sizes"]
    table = [place for row in rows for place in row[-width:]]
    table += [0] * (size * width - len(table))
    data = {"OutputCountTensor": [len(rows)], "OutputCoordinatesTensor": table}
    return {"seq": seq, "outputs": {name: asked[name] | {"data": data[name]} for name in data}}


def write(*lines: bytes) -> None:
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


def say(*messages: Any) -> None:
    write(*(json.dumps(message).encode() + b"\n" for message in messages))


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def hang() -> None:
    time.sleep(600)


def leave(status: int) -> None:
    complain("the last words")
    os._exit(status)


def hang_with_a_child() -> None:
    """Leave a process that holds a lock for as long as it lives, and wait with it."""
    with open(f"{STARTS}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        command = ["sh", "-c", "sleep 600 &"]
        fds = [file.fileno()]
        subprocess.run(command, pass_fds=fds, check=True)
        hang()


def main() -> None:
    """Answer, and misbehave at the victim."""
    for line in sys.stdin:
        message = json.loads(line)
        command, case, seq = message["command"], message.get("case"), message.get("seq")
        if command == "start":
            with open(STARTS, "a") as file:
                file.write("started\n")
        answer = honest(seq, case) if case else HELLO
        if VICTIM in ((case["inputs"]["InputTensor"]["dtype"], "every") if case else (command,)):
            eval(WAY)
        elif command == "stop":
            break
        else:
            say(answer)


if __name__ == "__main__":
    main()
