"""multipart/form-data, read as it arrives, into memory and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from piaa.serve.limits import Limits
from piaa.serve.problems import ProblemError

_MOST_FIELD_BYTES = 256 * 1024
_MOST_NAME = 255
# Classes may come one a field; besides them there are only a few.
_OTHER_FIELDS = 16


class FormFile(NamedTuple):
    field: str
    name: str
    data: bytes


class FormField(NamedTuple):
    field: str
    text: str


@dataclass
class Form:
    files: list[FormFile] = field(default_factory=list)
    fields: list[FormField] = field(default_factory=list)


class FormReader:
    """Takes a form's bytes in chunks of any size; refuses as soon as a limit is passed.

    A part with a file name, or with a type other than text, is a file; any other is a field.
    """

    def __init__(self, boundary: bytes | None, limits: Limits) -> None:
        if not boundary:
            raise ProblemError("malformed-body", "The content type of the form has no boundary.")
        self._limits = limits
        self._form = Form()
        self._header: tuple[bytearray, bytearray] = bytearray(), bytearray()
        self._field, self._file_name = "", ""
        self._is_file = False
        self._data = bytearray()
        self._complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda d, a, z: self._header[0].extend(d[a:z]),
                    "on_header_value": lambda d, a, z: self._header[1].extend(d[a:z]),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._add,
                    "on_part_end": self._end,
                    "on_end": self._finish,
                },
            )
        except FormParserError as error:
            raise _malformed(error) from error

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _malformed(error) from error

    def finish(self) -> Form:
        if not self._complete:
            raise ProblemError("malformed-body", "The form ends before its last boundary.")
        return self._form

    def _begin(self) -> None:
        self._field, self._file_name, self._is_file = "", "", False
        self._data = bytearray()

    def _end_header(self) -> None:
        name, value = bytes(self._header[0]).lower(), bytes(self._header[1])
        self._header = bytearray(), bytearray()
        if name == b"content-disposition":
            _, parameters = parse_options_header(value)
            self._field = parameters.get(b"name", b"").decode(errors="replace")
            self._is_file |= b"filename" in parameters
            file_name = parameters.get(b"filename", b"").decode(errors="replace")
            self._file_name = file_name[:_MOST_NAME]
        elif name == b"content-type":
            self._is_file |= not value.lower().startswith(b"text/")

    def _end_headers(self) -> None:
        if not self._field:
            raise ProblemError("malformed-body", "A part of the form has no name.")
        seen = len(self._form.files) if self._is_file else len(self._form.fields)
        most = self._limits.images if self._is_file else self._limits.classes + _OTHER_FIELDS
        if seen >= most:
            kind = "files" if self._is_file else "fields other than files"
            raise ProblemError("too-many-parts", f"The form has more than {most} {kind}.")

    def _add(self, data: bytes, start: int, end: int) -> None:
        self._data += data[start:end]
        if not self._is_file and len(self._data) > _MOST_FIELD_BYTES:
            raise ProblemError(
                "too-large",
                f"The field {self._field[:50]!r} has more than {_MOST_FIELD_BYTES:,} bytes.",
            )

    def _end(self) -> None:
        if self._is_file:
            self._form.files.append(FormFile(self._field, self._file_name, bytes(self._data)))
            return
        try:
            text = self._data.decode()
        except UnicodeDecodeError as error:
            raise ProblemError(
                "malformed-body", f"The field {self._field[:50]!r} is not UTF-8."
            ) from error
        self._form.fields.append(FormField(self._field, text))

    def _finish(self) -> None:
        self._complete = True


def _malformed(error: FormParserError) -> ProblemError:
    return ProblemError("malformed-body", f"The form cannot be read: {str(error)[:200]}")
