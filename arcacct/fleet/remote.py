"""A dataset that is no local directory, as DuckDB opens its files: through the store that `export` writes to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from arcacct.exporting.store import Store


class Remote(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files below a dataset by PROTOCOL://PATH, to be read; of those that manifests name, so they never change."""

    cachable = False

    def __init__(self, protocol: str, store: Store, sizes: dict[str, int]) -> None:
        """``sizes``: bytes by the path that DuckDB is told."""
        super().__init__()
        self.protocol = protocol
        self._store, self._sizes = store, sizes

    def open(self, path: str, mode: str = "rb", **_options: object) -> Any:
        """A file of pyarrow."""
        if mode != "rb":
            raise PermissionError(f"{path}: only to be read")
        return self._store.open(path.partition("://")[2])

    def exists(self, path: str, **_options: object) -> bool:
        """Whether it is one of these."""
        return path in self._sizes

    def size(self, path: str) -> int:
        """Bytes."""
        return self._sizes[path]

    def modified(self, path: str) -> datetime:  # noqa: ARG002  its name has its digest
        """Once and for all."""
        return datetime.fromtimestamp(0, UTC)

    def glob(self, path: str, **_options: object) -> list[str]:
        """The file itself: nobody is shown what else is there."""
        return [path] if path in self._sizes else []

    def unstrip_protocol(self, name: str) -> str:
        """As it is: nothing was stripped."""
        return name
