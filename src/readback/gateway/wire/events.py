"""The events of a stream over HTTP, each as soon as it is whole, in time that grows with what comes.

Called by `posts`. Source: HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations


class Events:
    """One stream's. Those that hold nothing, or are no messages (to keep a stream open, or to name a place in it), are
    passed over. `held`: bytes of what is not whole yet.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Of a line that has not ended."""
        self._data: list[bytes] = []
        self._kind = b""
        self._data_bytes = self.held = 0

    def take(self, part: bytes) -> list[bytes]:
        """What the messages say that end in this part."""
        self.held += len(part)
        self._rest.append(part)
        if b"\n" not in part:
            return []
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        whole: list[bytes] = []
        for line in lines:
            self._take_line(line.removesuffix(b"\r"), whole)
        self.held = self._data_bytes + len(rest)
        return whole

    def _take_line(self, line: bytes, whole: list[bytes]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._data_bytes += len(line)
        elif line.startswith(b"event:"):
            self._kind = line[6:].strip()
        elif not line:
            said = b"\n".join(self._data)
            if said and self._kind in (b"", b"message"):
                whole.append(said)
            self._data, self._kind, self._data_bytes = [], b"", 0
