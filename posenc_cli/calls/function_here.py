"""A function of this process, called as one in a process of its own is: by the same requests."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from posenc_cli.calls import worker
from posenc_cli.calls.called_function import CalledFunction
from posenc_cli.calls.onnx import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.calls.payloads import Payload
    from posenc_cli.calls.signature import CallRequest
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers


class FunctionHere(CalledFunction):
    """A function, or a class that an object is made of, which the caller of a check has at hand.

    What it raises is an error of the function; what it never returns from, or ends the process by,
    is not guarded against.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        reference: Reference,
        asked: CallRequest,
        *,
        context: int,
    ) -> None:
        name = name_of_function(function)
        python, renews = sys.executable, isinstance(function, type)
        super().__init__(name, reference, asked, python=python, context=context, renews=renews)
        self._given = self._function = function

    @property
    def lives(self) -> bool:
        """Whether it can be called."""
        return True

    def start(self) -> None:
        """Read what is known of the function, and make an object of a class anew."""
        self._function = self._given
        self._describe()

    def end(self) -> None:
        """Nothing is to be ended."""

    def _exchanged(
        self, payload: Payload | dict[str, Any], *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        if isinstance(payload, dict):
            header, data = payload, bytearray()
        else:
            line, *parts = payload.message(0)
            header, data = json.loads(bytes(line)), bytearray(b"".join(parts))
        try:
            self._function, report, arrays = worker.answered(
                self._function, self._given, header, data
            )
        except Refused as refused:
            raise self._refusal(str(refused), refused.why, positions) from refused.__cause__
        except SystemExit as ended:
            raised = f"raised {worker.error_text(ended)}"
            raise self._refusal(raised, "exited", positions) from None
        return report, bytearray(b"".join(arrays))


def name_of_function(function: Callable[..., Any]) -> str:
    """What messages call a function: its own name, else its type's."""
    return str(getattr(function, "__qualname__", type(function).__name__))
