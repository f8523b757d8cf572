"""Apache Spark over the files of a dataset: in this process and its threads, or on a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from arcacct.errors import UsageError
from arcacct.export.dataset import TABLES, VERSION
from arcacct.export.storage import LocalStore
from arcacct.fleet.dataset import VIEWS, Dataset, EngineFailed, script, typed

LOCAL = "local[*]"
_TYPES = {"string": "STRING", "int64": "BIGINT", "double": "DOUBLE"}
_MASTERS = ("spark://", "k8s://", "yarn", "local")
_FAILURES = (PySparkException, Py4JError)


class Spark:
    """An open dataset. Raises UsageError if Spark cannot start, EngineFailed for files that it cannot read."""

    def __init__(self, found: Dataset, tables: Sequence[str] = TABLES, master: str | None = None) -> None:
        away = next((one.store.shown for one in found.partitions if not isinstance(one.store, LocalStore)), None)
        if away is not None:
            raise UsageError(f"{away}: Spark's workers must have the directory, too; use --engine duckdb")
        master = master or LOCAL
        if not master.startswith(_MASTERS):
            raise UsageError(f"--master {master}: it must start with one of {', '.join(_MASTERS)}")
        builder = SparkSession.builder.master(master).appName("arcacct fleet")
        settings = {
            # Sums of a few files do not need two hundred further steps.
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.session.timeZone": "UTC",
            # The log of Spark and Java is not part of our answer.
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        if master.startswith("local"):
            # No other host may connect.
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        try:
            with warnings.catch_warnings():
                # A warning of pandas, which nothing here uses.
                warnings.simplefilter("ignore", FutureWarning)
                self.session = reduce(lambda made, one: made.config(*one), settings.items(), builder).getOrCreate()
        except Exception as error:
            raise UsageError(
                f"Spark does not start: {_first(error)}; it needs Java (apt-get install default-jre-headless) and a"
                " master that can be reached"
            ) from error
        try:
            for table in tables:
                self._table(found, table).createOrReplaceTempView(table)
            for view in VIEWS:
                self.session.sql(script(view)).createOrReplaceTempView(view)
        except _FAILURES as error:
            self.close()
            raise EngineFailed(_first(error)) from error

    def _table(self, found: Dataset, table: str) -> DataFrame:
        """All files of a table; partitions come from the paths in each dataset."""
        by_root: dict[str, list[str]] = {}
        for path, one in found.files(table).items():
            by_root.setdefault(one.store.path_of(f"{table}/v{VERSION}"), []).append(path)
        names = typed(table, _TYPES)
        # Spark is given the schema, or it opens files to learn it. Columns that older files lack are NULL.
        schema = ", ".join(f"{name} {kind}" for name, kind in names.items())
        frames = [
            self.session.read.schema(schema).option("basePath", root).parquet(*paths) for root, paths in by_root.items()
        ]
        if not frames:
            nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in names.items())
            return self.session.sql(f"SELECT {nothing} WHERE false")
        return reduce(DataFrame.union, (frame.select(*names) for frame in frames))

    def rows(self, sql: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """See `Engine`."""
        try:
            for row in self.session.sql(sql, args=dict(values) or None).toLocalIterator():
                yield tuple(row)
        except _FAILURES as error:
            raise EngineFailed(_first(error)) from error

    def close(self) -> None:
        """See `Engine`."""
        self.session.stop()


def _first(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
