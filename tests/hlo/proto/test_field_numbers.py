"""The field numbers of the pass against the schema that jaxlib carries."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from reference_proto import hlo_module_class

HEADER = pathlib.Path(__file__).parents[3] / "xla_patch/hlo/proto/field_numbers.h"
STRUCT = re.compile(r"// (xla\.[\w.]+).*\nstruct \w+Field \{\n  enum : uint32_t \{([^}]*)\}")
# Fields of older releases, whose numbers are reserved since.
REMOVED = {"xla.CollectiveDeviceListProto": {"iota_replica_group_list": 2}}


def listed_fields() -> dict[str, dict[str, int]]:
    """Returns the numbers of the header: message -> field -> number."""

    def proto_name(constant: str) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", constant).lower()

    return {
        message: {proto_name(name): int(number) for name, number in re.findall(r"k(\w+) = (\d+)", fields)}
        for message, fields in STRUCT.findall(HEADER.read_text())
    }


def known_messages() -> dict[str, Any]:
    """The message types of hlo.proto and all that their fields lead to, by full name."""
    found: dict[str, Any] = {}
    waiting = list(hlo_module_class().DESCRIPTOR.file.message_types_by_name.values())
    while waiting:
        message = waiting.pop()
        if message.full_name not in found:
            found[message.full_name] = message
            waiting += [field.message_type for field in message.fields if field.message_type is not None]
    return found


def test_the_header_is_read_completely() -> None:
    assert len(listed_fields()) == HEADER.read_text().count("struct ")


@pytest.mark.parametrize("message", listed_fields())
def test_every_listed_field_has_the_name_and_number_that_jaxlib_gives_it(message: str) -> None:
    schema = known_messages()[message]
    known = {field.name: field.number for field in schema.fields}
    assert {**known, **REMOVED.get(message, {}), **listed_fields()[message]} == {**known, **REMOVED.get(message, {})}
