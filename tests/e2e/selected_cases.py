"""Which cases of a file's parametrised test are to run, for a job that runs them all."""

from __future__ import annotations

import pytest


def selected_cases(request: pytest.FixtureRequest, **parameters: object) -> list[str]:
    """Returns the parameter `name` of the selected tests of the fixture's module that have these parameters."""
    calls = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    return [call["name"] for call in calls if call.items() >= parameters.items()]
