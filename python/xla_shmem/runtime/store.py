"""A key-value store that all processes of a job share: JAX's distributed store."""

from __future__ import annotations

import threading
from typing import Any, Protocol

#: Seconds that a process waits for a value that every process stores when it starts.
STORE_TIMEOUT_S = 60.0


class Store(Protocol):
    """Texts by key; a key is written once."""

    def set(self, key: str, value: str) -> None:
        """Stores a value."""

    def wait(self, key: str, timeout_s: float = STORE_TIMEOUT_S) -> str:
        """Waits for a value and returns it.

        Raises:
          TimeoutError: no process stored it in time.
        """

    def get(self, key: str) -> str | None:
        """Returns a value, None if there is none yet."""

    def propose(self, key: str, value: str) -> str:
        """Stores a value if there is none yet; returns the stored value, which is the same in all processes."""


class LocalStore:
    """The store of a job of one process, or of threads in a test."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def wait(self, key: str, timeout_s: float = STORE_TIMEOUT_S) -> str:
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout_s):
                raise TimeoutError(key)
            return self._values[key]

    def get(self, key: str) -> str | None:
        with self._changed:
            return self._values.get(key)

    def propose(self, key: str, value: str) -> str:
        with self._changed:
            standing = self._values.setdefault(key, value)
            self._changed.notify_all()
            return standing


class DistributedStore:
    """JAX's store, in a job that called ``jax.distributed.initialize``."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def set(self, key: str, value: str) -> None:
        self._client.key_value_set(key, value)

    def wait(self, key: str, timeout_s: float = STORE_TIMEOUT_S) -> str:
        try:
            return str(self._client.blocking_key_value_get(key, int(timeout_s * 1000)))
        except Exception as error:
            if "DEADLINE_EXCEEDED" in str(error):
                raise TimeoutError(key) from None
            raise

    def get(self, key: str) -> str | None:
        try:
            return str(self._client.key_value_try_get(key))
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return None
            raise

    def propose(self, key: str, value: str) -> str:
        try:
            self.set(key, value)
        except Exception as error:
            if "ALREADY_EXISTS" not in str(error):
                raise
        return self.wait(key)


def open_store() -> tuple[Store, int, int]:
    """Returns the store, this process's number, and the number of processes, as in ``jax.distributed``."""
    from jax._src import distributed

    state = distributed.global_state
    store = DistributedStore(state.client) if state.client is not None else LocalStore()
    return store, int(state.process_id or 0), int(state.num_processes or 1)
