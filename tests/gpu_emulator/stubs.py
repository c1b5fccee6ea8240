"""Writes stubs for the calls of a library that the emulator gives no behaviour.

Each stub is a weak symbol, so a definition beside it takes its place. A stub refuses: it names itself and returns the
library's "not supported".
"""

import argparse
import mmap
import pathlib
import re
import subprocess

# Names that cuda.h does not declare: cuda.h of today lacks the old spellings, profilerApi.h has the profiler's calls.
_CUDA_EXTRA = ("cuProfilerStart", "cuProfilerStop", "cuProfilerInitialize")


def declared_names(header: pathlib.Path, prefix: str) -> set[str]:
    """Returns the functions that a C header declares.

    Args:
        header: the public header.
        prefix: what the names begin with, a regular expression.

    Raises:
        subprocess.CalledProcessError: the preprocessor refuses the header.
    """
    command = ["cc", "-E", "-P", "-I", str(header.parent), str(header)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(rf"\b({prefix}\w+) *\(", text))


def newest_names(cuda_header: pathlib.Path) -> dict[str, str]:
    """Returns the newest version of each call of the driver that has several: "cuMemAlloc" is "cuMemAlloc_v2"."""
    defined = re.findall(
        r"^ *# *define +(cu[A-Z]\w+) +(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?", cuda_header.read_text(), re.M
    )
    return {base: re.sub(r"_pt[sd][sz]$", "", target) for base, target in defined}


def error_names(cuda_header: pathlib.Path) -> dict[int, str]:
    """Returns the names of the driver's results by their numbers."""
    pairs = re.findall(r"^ *(CUDA_SUCCESS|CUDA_ERROR_\w+) *= *(\d+)", cuda_header.read_text(), re.M)
    return {int(number): name for name, number in pairs}


def names_in(binary: pathlib.Path, prefix: str) -> set[str]:
    """Returns the names with `prefix` that a program can ask the dynamic linker for: strings of the file."""
    with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # No lookbehind: then `re` searches for the literal beginning, which took 0.5 s instead of 14.
        found = re.finditer(rf"{prefix}\w+\0".encode(), data)
        return {
            match.group()[:-1].decode()
            for match in found
            if not re.match(rb"\w", data[max(match.start() - 1, 0) : match.start()])
        }


def stub_source(names: set[str], newest: dict[str, str] | None, errors: dict[int, str]) -> str:
    """Returns the C++ source of the stubs and, for the driver, of the tables of newest names and of errors."""
    refused = '__attribute__((visibility("hidden"))) int gpu_emulator_refused(const char* name);'
    lines = ['extern "C" {', refused]
    for name in sorted(names):
        lines.append(f'__attribute__((weak)) int {name}() {{ return gpu_emulator_refused("{name}"); }}')
    lines.append('}  // extern "C"')
    if newest is not None:
        lines += ['#include "driver/entry_points.h"', "const NewestName gpu_emulator_newest_names[] = {"]
        lines += [f'    {{"{base}", "{target}"}},' for base, target in sorted(newest.items())]
        lines.append("    {nullptr, nullptr}};")
        lines.append("const ErrorName gpu_emulator_error_names[] = {")
        lines += [f'    {{{number}, "{name}"}},' for number, name in sorted(errors.items())]
        lines.append("    {0, nullptr}};")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes one file of stubs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", type=pathlib.Path, help="public header that declares the library's calls")
    parser.add_argument("--binary", type=pathlib.Path, help="program whose strings name the calls, without a header")
    parser.add_argument("--prefix", required=True, help="what the names begin with, a regular expression")
    parser.add_argument("--driver", action="store_true", help="this is cuda.h: add old names and the table of versions")
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    names: set[str] = set()
    newest = None
    errors: dict[int, str] = {}
    if options.header:
        names |= declared_names(options.header, options.prefix)
    if options.binary:
        names |= names_in(options.binary, options.prefix)
    if options.driver:
        newest = newest_names(options.header)
        errors = error_names(options.header)
        names |= set(newest) | set(newest.values()) | set(_CUDA_EXTRA)
        names |= {re.sub(r"_pt[sd][sz]$", "", name) for name in names}
    options.output.write_text(stub_source(names, newest, errors))


if __name__ == "__main__":
    main()
