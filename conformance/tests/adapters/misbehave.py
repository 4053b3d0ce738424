"""Answers every case about integers, but goes wrong in the way it is told at one of them.

Arguments: the way, the id of the case, and a file that gets one line for each start.
"""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

WAY, VICTIM, STARTS = (*sys.argv, "", "", "")[1:4]
HELLO = {
    "protocol": 1,
    "name": "misbehaving",
    "language": "Python",
    "version": "1",
    "operators": ["nonzero_coordinates"],
}


def honest(case: dict[str, Any]) -> dict[str, Any]:
    x, asked = case["inputs"]["InputTensor"], case["outputs"]
    places = itertools.product(*map(range, x["sizes"]))
    rows = list(itertools.compress(places, map(int, x["data"])))
    *_, size, width = asked["OutputCoordinatesTensor"]["sizes"]
    table = [place for row in rows for place in row[-width:]]
    table += [0] * (size * width - len(table))
    return {
        "OutputCountTensor": {**asked["OutputCountTensor"], "data": [len(rows)]},
        "OutputCoordinatesTensor": {**asked["OutputCoordinatesTensor"], "data": table},
    }


def say(message: Any) -> None:
    write(json.dumps(message).encode() + b"\n")


def write(raw: bytes) -> None:
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def hang() -> None:
    time.sleep(600)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave_with(status: int) -> None:
    print("the last words", file=sys.stderr, flush=True)
    os._exit(status)


def flood_stderr() -> None:
    for _ in range(100):
        sys.stderr.write("x" * 100_000 + "\n")


def flood_stdout() -> None:
    for _ in range(10_000):
        write(b'{"seq":999999,"unsupported":"flood"}\n')
    hang()


def leave_a_child() -> None:
    """Start a process that holds a lock for as long as it lives, and wait with it."""
    with open(f"{STARTS}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        subprocess.Popen(["sleep", "600"], pass_fds=[file.fileno()])
        hang()


def leave_a_child_in_a_session() -> None:
    """Do the same from a session of its own, whose leader has ended."""
    with open(f"{STARTS}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        command = ["sh", "-c", "sleep 600 &"]
        subprocess.run(command, pass_fds=[file.fileno()], start_new_session=True, check=True)
        hang()


def close_stdout() -> None:
    os.close(1)
    hang()


def instead(seq: int, outputs: dict[str, Any]) -> dict[str, Callable[[], None]]:
    """Return what can be said or done instead of the answer."""
    count = outputs["OutputCountTensor"]

    def answer(**changed: Any) -> Callable[[], None]:
        return lambda: say({"seq": seq, "outputs": {**outputs, **changed}})

    return {
        "hang": hang,
        "crash": crash,
        "exit": lambda: leave_with(3),
        "leave-a-child": leave_a_child,
        "leave-a-session": leave_a_child_in_a_session,
        "surrogate": lambda: say({"seq": seq, "unsupported": "no \ud800 kernel"}),
        "surrogate-error": lambda: say({"seq": seq, "error": "\udfff\x1b[2J\x07"}),
        "surrogate-name": answer(**{"Output\ud800": count}),
        "long-error": lambda: say({"seq": seq, "error": "out of memory " * 1_500_000}),
        "long-refusal": lambda: say(
            {
                "seq": seq,
                "refused": {"code": "sizes", "field": "InputTensor", "message": "x" * 20_000_000},
            }
        ),
        "long-answer": lambda: write(
            b'{"seq":%d,"outputs":{"OutputCountTensor":{"dtype":"uint32","sizes":[1],"data":[' % seq
            + b"1," * 10_000_000
            + b"1]}}}\n"
        ),
        "close-stdout": close_stdout,
        "flood-stdout": flood_stdout,
        "garbage": lambda: write(b"Segmentation fault? No, only chatter\n"),
        "empty-line": lambda: write(b"\n"),
        "not-utf-8": lambda: write(b'{"seq":1,"unsupported":"\xff\xfe"}\n'),
        "nan": lambda: write(b'{"seq":NaN}\n'),
        "deep": lambda: write(b"[" * 200_000 + b"\n"),
        "many-digits": lambda: write(b'{"seq":' + b"9" * 10_000 + b"}\n"),
        "too-long": lambda: write(b'{"seq":1,"unsupported":"' + b"x" * 2_000_000 + b'"}\n'),
        "half-a-line": lambda: (write(b'{"seq":'), leave_with(0))[0],
        "half-a-line-and-hang": lambda: (write(b'{"seq":'), hang())[0],
        "wrong-seq": lambda: say({"seq": seq + 1, "outputs": outputs}),
        "no-seq": lambda: say({"outputs": outputs}),
        "two-answers": lambda: say({"seq": seq, "outputs": outputs, "unsupported": "both"}),
        "list": lambda: say([seq, outputs]),
        "twice": lambda: (answer()(), answer()())[0],
        "reports-an-error": lambda: (
            print("see here", file=sys.stderr, flush=True),
            say({"seq": seq, "error": "out of memory"}),
        )[0],
        "unknown-code": lambda: say(
            {"seq": seq, "refused": {"code": "bad", "field": "InputTensor"}}
        ),
        "refused": lambda: say(
            {"seq": seq, "refused": {"code": "sizes", "field": "InputTensor", "message": "why"}}
        ),
        "unsupported": lambda: say({"seq": seq, "unsupported": "no such kernel"}),
        "extra-output": answer(OutputTensor=count),
        "missing-output": lambda: say({"seq": seq, "outputs": {"OutputCountTensor": count}}),
        "wrong-dtype": answer(OutputCountTensor={**count, "dtype": "int32"}),
        "wrong-sizes": answer(OutputCountTensor={**count, "sizes": [1, 1, 1, 1, 1]}),
        "too-few-elements": answer(OutputCountTensor={**count, "data": []}),
        "out-of-range": answer(OutputCountTensor={**count, "data": [-1]}),
        "decimal": answer(OutputCountTensor={**count, "data": [float(count["data"][0])]}),
        "text": answer(OutputCountTensor={**count, "data": [str(count["data"][0])]}),
        "bits": answer(OutputCountTensor={"dtype": "uint32", "sizes": [1], "bits": ["00000001"]}),
        "huge-sizes": answer(OutputCountTensor={**count, "sizes": [1 << 62, 1 << 62]}),
        "no-elements-but-huge": answer(
            OutputCountTensor={"dtype": "uint32", "sizes": [0, 1 << 62, 1 << 62], "data": []}
        ),
        "many-dimensions": answer(OutputCountTensor={**count, "sizes": [1] * 1000}),
        "flood-stderr": lambda: (flood_stderr(), answer()())[1],
    }


def start() -> None:
    with open(STARTS, "a") as file:
        file.write("started\n")
    if WAY == "silent-start":
        hang()
    elif WAY == "dies-at-once":
        leave_with(7)
    elif WAY == "garbage-start":
        write(b"Loading...\n")
    elif WAY == "other-protocol":
        say(HELLO | {"protocol": 2})
    elif WAY == "no-operators":
        say(HELLO | {"operators": []})
    elif WAY == "misspelt-key":
        say(HELLO | {"capability": []})
    else:
        say(HELLO)
    if WAY == "never-reads":
        hang()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message["command"] == "start":
            start()
        elif message["command"] == "stop" and WAY == "does-not-stop":
            hang()
        elif message["command"] == "stop":
            return
        else:
            run(message["seq"], message["case"])


def run(seq: int, case: dict[str, Any]) -> None:
    outputs = honest(case)
    if case["id"] == VICTIM or VICTIM == "every":
        instead(seq, outputs)[WAY]()
    else:
        say({"seq": seq, "outputs": outputs})


if __name__ == "__main__":
    main()
