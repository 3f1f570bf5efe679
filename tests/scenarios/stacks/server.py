"""An object store over HTTP: ``python server.py FOLDER DELAY_MS BYTES_PER_S PORT``.

It answers as S3 does with path-style addresses (/bucket/KEY, HEAD, ranges, ListObjectsV2). It waits DELAY_MS before
each answer, and sends at most BYTES_PER_S over all connections together. It writes a line with its port when it is
ready. Port 0 chooses a free port.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PIECE = 32 * 1024
BUCKET = "bucket"
DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


class Rate:
    """Limits the rate of all connections together to this number of bytes per second."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s, self._free = bytes_per_s, 0.0

    async def take(self, size: int) -> None:
        now = time.monotonic()
        self._free = max(now, self._free) + size / self._bytes_per_s
        if self._free - now > 0.002:
            await asyncio.sleep(self._free - now)


class Store:
    """The objects of a folder."""

    def __init__(self, folder: Path, delay_s: float, rate: Rate) -> None:
        self._folder, self._delay_s, self._rate = folder, delay_s, rate

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client has closed the connection, for example because it was killed.
            return
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        await asyncio.sleep(self._delay_s)
        url = urlsplit(target)
        key = unquote(url.path).strip("/").removeprefix(BUCKET).strip("/")
        path = self._folder / key
        if not key or "list-type" in parse_qs(url.query):
            body = self._list(parse_qs(url.query).get("prefix", [""])[0])
            await self._answer(writer, "200 OK", len(body), [], body if method == "GET" else b"")
        elif not path.is_file():
            await self._answer(writer, "404 Not Found", 0, [], b"")
        else:
            await self._object(writer, method, path, headers.get("range", ""))
        return headers.get("connection", "").lower() != "close"

    async def _object(self, writer: asyncio.StreamWriter, method: str, path: Path, wanted: str) -> None:
        size = path.stat().st_size
        first, last, status, more = 0, size - 1, "200 OK", []
        if wanted.startswith("bytes="):
            begin, _, end = wanted[6:].partition("-")
            first = int(begin) if begin else size - int(end)
            last = min(size - 1, int(end)) if begin and end else size - 1
            status, more = "206 Partial Content", [f"Content-Range: bytes {first}-{last}/{size}"]
        body = b""
        if method == "GET":
            with path.open("rb") as file:
                file.seek(first)
                body = file.read(last - first + 1)
        more += [f'ETag: "{path.name}"', f"Last-Modified: {DATE}", "Accept-Ranges: bytes"]
        await self._answer(writer, status, last - first + 1, more, body)

    async def _answer(self, writer: asyncio.StreamWriter, status: str, size: int, more: list[str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", "Content-Type: binary/octet-stream", *more, "", ""]
        writer.write("\r\n".join(lines).encode())
        for at in range(0, len(body), PIECE):
            piece = body[at : at + PIECE]
            await self._rate.take(len(piece))
            writer.write(piece)
            await writer.drain()

    def _list(self, prefix: str) -> bytes:
        found = sorted(p for p in self._folder.rglob("*") if p.is_file())
        keys = [(str(p.relative_to(self._folder)), p.stat().st_size) for p in found]
        rows = "".join(
            f"<Contents><Key>{escape(k)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{escape(k)}&quot;</ETag><Size>{n}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for k, n in keys
            if k.startswith(prefix)
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><IsTruncated>false</IsTruncated>{rows}"
            "</ListBucketResult>"
        ).encode()


async def main() -> None:
    store = Store(Path(sys.argv[1]), float(sys.argv[2]) / 1000, Rate(float(sys.argv[3])))
    listening = await asyncio.start_server(store.serve, "0.0.0.0", int(sys.argv[4]))
    print("serving on", listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
