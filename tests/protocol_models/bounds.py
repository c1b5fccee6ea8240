"""The models, and the sizes at which they are checked."""

from __future__ import annotations

from spin_checks import Bounds

CHECKED = [
    Bounds("cpu/channel.pml", polls=True),
    Bounds("cpu/channel.pml", ("MAY_FAIL=1",), polls=True),
    Bounds("cpu/channel.pml", ("RECORDS=2",), polls=True, ends=False),
    Bounds("cpu/channel.pml", ("BLOCKS=2", "CHUNKS=2"), polls=True),
    Bounds("cpu/channel.pml", ("RECORDS=2", "BLOCKS=2", "CHUNKS=2", "MAY_FAIL=0"), polls=True, ends=False),
    Bounds("cpu/blocks.pml"),
    Bounds("cpu/blocks.pml", ("BLOCKS=2",)),
    Bounds("cpu/mailboxes.pml", ("MESSAGES=2",), polls=True),
    Bounds("cpu/mailboxes.pml", ("MESSAGES=2", "ENTRIES=2", "LOOKS=0"), polls=True),
    Bounds("cpu/mailboxes.pml", ("MESSAGES=3", "LOOKS=0"), polls=True, ends=False),
    Bounds("cpu/direct_read.pml"),
    Bounds("cpu/direct_read.pml", ("POSITIONS=7",)),
    Bounds("cpu/failure.pml", ends=False),
    Bounds("cpu/failure.pml", ("DEADLINES=0",)),
    Bounds("cpu/failure.pml", ("DEADLINES=1",)),
    Bounds("cpu/failure.pml", ("DEADLINES=1", "VICTIM=1")),
    Bounds("cpu/failure.pml", ("DEADLINES=1", "VICTIM=2")),
    Bounds("cpu/failure.pml", ("DEADLINES=0", "FATE=AT_END", "VICTIM=1")),
    Bounds("cpu/failure.pml", ("DEADLINES=0", "FATE=ELSEWHERE", "VICTIM=1")),
    Bounds("cpu/failure.pml", ("DEADLINES=0", "FATE=STOPPED", "VICTIM=1")),
    Bounds("cpu/revoke.pml", polls=True),
    Bounds("gpu/rings.pml"),
    Bounds("gpu/rings.pml", ("COPIES=1",)),
    Bounds("gpu/rings.pml", ("QUEUES=1", "MESSAGES=11")),
    Bounds("gpu/rings.pml", ("QUEUES=1", "COPIES=1", "MESSAGES=11")),
    Bounds("gpu/rings.pml", ("QUEUES=0", "MESSAGES=11")),
    Bounds("gpu/rings.pml", ("QUEUES=0", "COPIES=1", "MESSAGES=11")),
    Bounds("gpu/lanes.pml", ("OPERATIONS=4",)),
    Bounds("gpu/lanes.pml", ("OPERATIONS=4", "FIRST=2")),
    Bounds("gpu/lanes.pml", ("OPERATIONS=4", "FIRST=3", "STEP=3")),
    Bounds("gpu/lanes.pml", ("OPERATIONS=4", "FIRST=1", "STEP=3")),
    Bounds("gpu/lanes.pml", ("OPERATIONS=4", "FIRST=1", "STEP=2")),
    Bounds("gpu/lanes.pml", ("MAY_FAIL=1", "FIRST=2", "STEP=3", "OPERATIONS=2", "CHUNKS=1")),
    Bounds("gpu/lanes.pml", ("MAY_FAIL=1", "FIRST=3", "STEP=3", "OPERATIONS=2", "CHUNKS=1")),
]
