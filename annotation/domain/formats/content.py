"""What a file is by its content, not by its name: opened as UTF-8 text whatever it is packed or encoded in. Pure.

gzip and Zstandard are unpacked as a stream, with a bound on what may come out of them. Another encoding than UTF-8 is
told by charset-normalizer; what is UTF-8 passes through untouched, and where no encoding fits the bytes do, so that
the reader refuses them with their line.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from annotation.core.errors import N_, InputError

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch

GZIP, ZSTD, ZIP, OPEN_DOCUMENT, PARQUET, ARROW, OLD_OFFICE, TEXT, FOLDER = (
    "gzip",
    "zstd",
    "zip",
    "open_document",
    "parquet",
    "arrow",
    "old_office",
    "text",
    "folder",
)
BEGINNING_OF_ARROW_FILE = b"ARROW1"
_BEGINNINGS = {
    b"\x1f\x8b": GZIP,
    b"\x28\xb5\x2f\xfd": ZSTD,
    b"PK\x03\x04": ZIP,
    b"PK\x05\x06": ZIP,
    b"PAR1": PARQUET,
    BEGINNING_OF_ARROW_FILE: ARROW,
    b"\xff\xff\xff\xff": ARROW,
    b"\xd0\xcf\x11\xe0": OLD_OFFICE,
}
_OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument"
"""The first file in the zip of an OpenDocument: its name, and what stands in it."""
_ZIP_HEADER_BYTES = 30
MAX_PACKING_RATIO = 200
"""How many times its size a packed file may unpack to, once that is more than ``FREE``: text packs to a tenth or so."""
FREE = 64 * 1024 * 1024
MAX_WINDOW_BYTES = 128 * 1024 * 1024
PIECE = 1024 * 1024
SAMPLE = 64 * 1024
ENCODINGS = ("gb18030", "big5", "cp932", "euc_jp", "cp1252")
"""What spreadsheets write in China, Taiwan, Japan and the West; Unicode is known without a guess."""
MIN_LEAD = 0.05
"""By how much an encoding must be likelier than the next, which would read the file otherwise."""
_ANYWHERE = frozenset("，。？！、：；「」『』“”‘’《》（）【】…—–·\u3000")
_LEVELS = {
    "gb18030": ("gb2312", 0xB0A1, 0xD7F9),
    "big5": ("big5", 0xA440, 0xC67E),
    "cp932": ("cp932", 0x889F, 0x9872),
    "euc_jp": ("cp932", 0x889F, 0x9872),
}
"""The first level of each table of characters: those in daily use."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ufffe\uffff]")
TOO_LARGE = N_(
    "this file unpacks to more than {ratio} times its size; if that is meant, unpack it before it is imported."
)


def recognise(path: Path) -> str:
    """What the file is, by its first bytes; ``TEXT`` for whatever is none of the others."""
    if path.is_dir():
        return FOLDER
    with path.open("rb") as file:
        beginning = file.read(_ZIP_HEADER_BYTES + len(_OPEN_DOCUMENT))
    if beginning[_ZIP_HEADER_BYTES:] == _OPEN_DOCUMENT:
        return OPEN_DOCUMENT
    return next((kind for bytes_, kind in _BEGINNINGS.items() if beginning.startswith(bytes_)), TEXT)


def open_unpacked(path: Path, name: str) -> IO[bytes]:
    """The bytes of the file, of a packed one what is in it; refuses one that unpacks to far more than its size."""
    kind = recognise(path)
    # Each read wakes the threads that wait for the interpreter, mostly too late to get it: short ones starve them.
    raw = path.open("rb", PIECE)
    if kind == GZIP:
        return _bound(gzip.GzipFile(fileobj=raw), raw, name, path)
    if kind == ZSTD:
        import zstandard

        unpacking = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        return _bound(unpacking.stream_reader(raw, read_across_frames=True), raw, name, path)
    return raw


def check_packing(unpacked: int, packed: int, name: str) -> None:
    """Refuse what unpacks to far more than its size."""
    if unpacked > FREE and unpacked > MAX_PACKING_RATIO * packed:
        raise InputError(TOO_LARGE, path=name, ratio=MAX_PACKING_RATIO)


def _bound(stream: object, raw: IO[bytes], name: str, path: Path) -> IO[bytes]:
    unpacked = _Unpacked(cast("IO[bytes]", stream), raw, name, path.stat().st_size)
    return cast("IO[bytes]", io.BufferedReader(unpacked, PIECE))


class _Stream(io.RawIOBase):
    """Bytes made from other bytes, a piece at a time."""

    def __init__(self) -> None:
        self._pieces = self._make_pieces()
        self._piece = b""

    @abstractmethod
    def _make_pieces(self) -> Iterator[bytes]: ...

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = cast("memoryview", buffer)
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = piece
        size = min(len(view), len(self._piece))
        view[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size


class _Unpacked(_Stream):
    def __init__(self, stream: IO[bytes], raw: IO[bytes], name: str, size: int) -> None:
        super().__init__()
        self._stream, self._raw, self._name, self._size = stream, raw, name, size

    def _make_pieces(self) -> Iterator[bytes]:
        unpacked = 0
        while True:
            try:
                piece = self._stream.read(PIECE)
            except (OSError, EOFError, zlib.error) as error:
                raise self._refuse(error) from error
            except Exception as error:  # zstandard's own, which is imported only where it is needed
                if type(error).__name__ != "ZstdError":
                    raise
                raise self._refuse(error) from error
            if not piece:
                return
            unpacked += len(piece)
            check_packing(unpacked, self._size, self._name)
            yield piece

    def _refuse(self, error: Exception) -> InputError:
        return InputError(
            N_("this packed file is damaged ({why}); fetch or pack it again."), path=self._name, why=error
        )

    def close(self) -> None:
        self._raw.close()
        super().close()


def detect_encoding(path: Path, name: str) -> str | None:
    """``utf-8`` where the text is that, or as much as was looked at; None where no encoding fits."""
    with open_unpacked(path, name) as file:
        beginning = file.read(PIECE)
        if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in beginning:
            return _detect_utf16(beginning)
        while beginning and beginning.isascii():
            beginning = file.read(PIECE)
    if not beginning or _is_utf8(beginning):
        return "utf-8"
    return _guess_encoding(beginning)


def _detect_utf16(sample: bytes) -> str | None:
    """Without a mark: the order of bytes in which the text has lines and no control characters, if one has."""
    texts = {
        encoding: sample[: len(sample) // 2 * 2].decode(encoding, "replace")
        for encoding in ("utf-16-le", "utf-16-be")
    }
    fit = [encoding for encoding, text in texts.items() if "\n" in text and not _CONTROL.search(text)]
    return max(fit, key=lambda encoding: sum(map(str.isascii, texts[encoding])), default=None)


def _is_utf8(sample: bytes) -> bool:
    """Also where it is damaged: most of what is not ASCII is well formed. Of another encoding hardly anything is."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    bad = text.count("�")
    return bad == 0 or sum(character > "\x7f" for character in text) - bad >= bad


def _guess_encoding(sample: bytes) -> str | None:
    from charset_normalizer import from_bytes

    lines = (line for line in sample.split(b"\n")[:-1] or [sample] if not line.isascii())
    telling = b"\n".join(lines)[:PIECE]
    matches = list(from_bytes(_cut(telling), cp_isolation=list(ENCODINGS)))
    matches.sort(key=_rate, reverse=True)
    if not matches:
        return None
    best = matches[0]
    rivals = (match for match in matches[1:] if str(match) != str(best))
    rival = next(rivals, None)
    return best.encoding if rival is None or _rate(best) - _rate(rival) >= MIN_LEAD else None


def _rate(match: CharsetMatch) -> float:
    """A few words of a header look well formed in several encodings: the one in which they are usual words is meant."""
    return match.coherence - match.chaos + _share_usual(str(match), match.encoding)


def _share_usual(text: str, encoding: str) -> float:
    """The share of the letters that are among those in daily use, by the level that the encoding itself gives them."""
    letters = [letter for letter in text[:SAMPLE] if not letter.isascii() and letter not in _ANYWHERE]
    return sum(_is_usual(letter, encoding) for letter in letters) / len(letters) if letters else 1.0


def _is_usual(letter: str, encoding: str) -> bool:
    if encoding == "cp1252":
        return "\u00c0" <= letter <= "\u00ff"
    table, first, last = _LEVELS[encoding]
    try:
        code = letter.encode(table)
    except UnicodeEncodeError:
        return False
    is_kana = table == "cp932" and "\u3041" <= letter <= "\u30fe"
    return is_kana or (len(code) == 2 and first <= int.from_bytes(code) <= last)


def _cut(sample: bytes) -> bytes:
    """Whole lines of it, for half a character would count against its encoding."""
    if len(sample) <= SAMPLE:
        return sample
    return sample[: sample.rfind(b"\n", 0, SAMPLE) if b"\n" in sample[:SAMPLE] else SAMPLE]


def open_utf8(path: Path, name: str, encoding: str | None) -> IO[bytes]:
    """The unpacked text in UTF-8, from this encoding; as it stands where there is none."""
    file = open_unpacked(path, name)
    if encoding in {None, "utf-8"}:
        return file
    try:
        codecs.lookup(str(encoding))
    except LookupError as error:
        file.close()
        raise InputError(
            N_("there is no encoding {encoding}; the usual ones are {known}."),
            path=name,
            encoding=encoding,
            known=", ".join(("utf-8", "utf-16", *ENCODINGS)),
        ) from error
    return cast("IO[bytes]", io.BufferedReader(_Recoded(file, str(encoding), name), PIECE))


class _Recoded(_Stream):
    def __init__(self, file: IO[bytes], encoding: str, name: str) -> None:
        super().__init__()
        self._file, self._encoding, self._name = file, encoding, name

    def _make_pieces(self) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self._encoding)()
        line, is_last = 1, False
        while not is_last:
            content = self._file.read(PIECE)
            is_last = not content
            try:
                text = decoder.decode(content, final=is_last)
            except UnicodeDecodeError as error:
                line += content.count(b"\n", 0, max(0, error.start))
                raise InputError(
                    N_("this is not text in {encoding}, which the file seems to be; save it as UTF-8."),
                    path=self._name,
                    line=line,
                    encoding=self._encoding.upper(),
                ) from error
            line += text.count("\n")
            if text:
                yield text.encode("utf-8", "surrogatepass")

    def close(self) -> None:
        self._file.close()
        super().close()
