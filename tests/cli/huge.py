"""Run each command line of stdin under bounds, in a process of its own; tell of each as JSON.

Each is forked from one process that has imported what they need, so that many cost little. The
bounds are CPU seconds and address space past what the process has, so no other load counts.
"""

import json
import os
import re
import resource
import sys
import tempfile
from pathlib import Path

SAMPLED = re.compile(
    r"\s(?:of\s+up\s+to|of\s+each)\s+[0-9]+|shows\s+[0-9]+\s+of\s+[0-9]+"
    r"|the first [0-9]+|looked\s+at|sampled?\b"
)
CPU_SECONDS, EXTRA_BYTES = 12, 512 << 20


def outcome(arguments):
    """What a command ends with under the bounds: a negative status where a signal ended it."""
    from posenc_cli.cli.exits import main

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            held = pages * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + EXTRA_BYTES,) * 2)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS,) * 2)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            status = main(arguments)
            sys.stdout.flush()
            os._exit(status)
        _, ended = os.waitpid(child, 0)
        said = []
        for stream in (out, err):
            stream.seek(0)
            said.append(stream.read().decode("utf-8", "replace"))
    return {
        "arguments": arguments,
        "status": os.waitstatus_to_exitcode(ended),
        "sampled": bool(SAMPLED.search("".join(said))),
        "out": said[0][-2000:],
        "err": said[1][-2000:],
    }


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

    for line in sys.stdin:
        print(json.dumps(outcome(json.loads(line))), flush=True)
