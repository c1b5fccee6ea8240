"""The switch in XLA_FLAGS."""

from __future__ import annotations

import pytest

from xla_shmem.xla_flags import FLAG, MARKER, read_flag, remove_flag, restore_flag, take_flag


@pytest.mark.parametrize("spelling", ["", "=true", "=True", "=TRUE", "=1", '="true"', "='1'"])
def test_every_spelling_that_xla_reads_as_true_switches_on(spelling: str) -> None:
    environ = {"XLA_FLAGS": FLAG + spelling}
    assert take_flag(environ) is True
    assert environ == {MARKER: "1"}


@pytest.mark.parametrize("spelling", ["=false", "=False", "=0", '="false"'])
def test_every_spelling_that_xla_reads_as_false_switches_off(spelling: str) -> None:
    environ = {"XLA_FLAGS": FLAG + spelling, MARKER: "1"}
    assert take_flag(environ) is False
    assert environ == {}


def test_absent_flag_is_none_and_changes_nothing() -> None:
    environ = {"XLA_FLAGS": "--xla_dump_to=/tmp/x"}
    assert take_flag(environ) is None
    assert environ == {"XLA_FLAGS": "--xla_dump_to=/tmp/x"}
    assert take_flag({}) is None


def test_child_process_sees_the_choice_through_the_marker() -> None:
    environ = {"XLA_FLAGS": f"--xla_a=1 {FLAG}"}
    take_flag(environ)
    assert take_flag(environ) is True
    assert environ[MARKER] == "1"


def test_rest_of_the_string_stays_byte_for_byte() -> None:
    environ = {"XLA_FLAGS": f'  --a=\'x  y\' {FLAG}=true\t --b="q\\"r" \n--c'}
    assert take_flag(environ) is True
    assert environ["XLA_FLAGS"] == '  --a=\'x  y\' \t --b="q\\"r" \n--c'


def test_last_occurrence_wins_and_all_are_removed() -> None:
    environ = {"XLA_FLAGS": f"{FLAG} --a=1 {FLAG}=false"}
    assert take_flag(environ) is False
    assert environ == {"XLA_FLAGS": " --a=1 "}


@pytest.mark.parametrize(
    "xla_flags",
    [
        f"{FLAG}_too=true",  # another flag that begins like ours
        f"{FLAG}-x",
        f"--no{FLAG[2:]}",  # XLA has no --no form
        f"-{FLAG[2:]}=true",  # nor single dashes
        f"--a='{FLAG}=true'",  # inside the value of another flag
        f'--a="x \\" {FLAG}"',
        f"--a=b{FLAG}",
        "/etc/my_xla_flags",  # a flag file
        f"oops {FLAG}=true",  # XLA takes the whole for a file name
        f"--a oops {FLAG}=true",  # XLA gives up at the first word without a dash
    ],
)
def test_text_that_xla_would_not_read_as_the_flag_is_unchanged(xla_flags: str) -> None:
    environ = {"XLA_FLAGS": xla_flags}
    assert take_flag(environ) is None
    assert environ == {"XLA_FLAGS": xla_flags}


def test_flag_right_behind_a_quoted_value_is_seen() -> None:
    environ = {"XLA_FLAGS": f"--a='x'{FLAG}=1 --b"}
    assert take_flag(environ) is True
    assert environ["XLA_FLAGS"] == "--a='x' --b"


@pytest.mark.parametrize("rest", [" ", "\t\n", " leftover words"])
def test_no_remainder_is_left_that_xla_would_read_as_a_file_name(rest: str) -> None:
    environ = {"XLA_FLAGS": FLAG + rest}
    assert take_flag(environ) is True
    assert "XLA_FLAGS" not in environ


def test_value_that_is_not_a_bool_is_an_error_and_changes_nothing() -> None:
    environ = {"XLA_FLAGS": f"{FLAG} {FLAG}=yes"}
    with pytest.raises(ValueError, match=f"{FLAG}=yes: must be true, false, 1 or 0"):
        take_flag(environ)
    assert environ == {"XLA_FLAGS": f"{FLAG} {FLAG}=yes"}


def test_the_flag_can_be_removed_whatever_its_value() -> None:
    environ = {"XLA_FLAGS": f"--xla_a=1 {FLAG}=yes --xla_b={FLAG} {FLAG}", MARKER: "1"}
    remove_flag(environ)
    assert environ == {"XLA_FLAGS": f"--xla_a=1  --xla_b={FLAG} ", MARKER: "1"}


def test_read_flag_changes_nothing() -> None:
    environ = {"XLA_FLAGS": f"{FLAG}=0", MARKER: "1"}
    assert read_flag(environ) is False
    assert environ == {"XLA_FLAGS": f"{FLAG}=0", MARKER: "1"}


def test_explicit_false_beats_the_marker_of_a_parent() -> None:
    assert take_flag({"XLA_FLAGS": f"{FLAG}=false", MARKER: "1"}) is False


@pytest.mark.parametrize("xla_flags", [f'--a="{FLAG}', f"--a='x {FLAG}", '--a="x\\'])
def test_quote_that_is_never_closed_runs_to_the_end(xla_flags: str) -> None:
    environ = {"XLA_FLAGS": xla_flags}
    assert take_flag(environ) is None
    assert environ == {"XLA_FLAGS": xla_flags}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({MARKER: "1"}, f"{FLAG}=true"),
        ({MARKER: "1", "XLA_FLAGS": "--xla_a=1"}, f"--xla_a=1 {FLAG}=true"),
        ({MARKER: "1", "XLA_FLAGS": f"{FLAG}=1"}, f"{FLAG}=1"),
        ({MARKER: "1", "XLA_FLAGS": f"{FLAG}=0"}, f"{FLAG}=0"),
        ({"XLA_FLAGS": "--xla_a=1"}, "--xla_a=1"),
    ],
)
def test_restore_flag_sets_the_flag_from_the_marker(before: dict[str, str], after: str) -> None:
    environ = dict(before)
    restore_flag(environ)
    assert environ == before | {"XLA_FLAGS": after}
