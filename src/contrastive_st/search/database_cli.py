"""`contrastive-st collections` and `database`: what a store has, and who may use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from contrastive_st.options import option
from contrastive_st.search.cli import StoreCommand
from contrastive_st.terminal import note, say


@dataclass
class Collections(StoreCommand):
    """list the collections of a store; describe, rename, swap or delete one

    contrastive-st collections talks
    contrastive-st collections talks --rename archive
    """

    name: str = option("collection to describe or change (default: list all collections)", default="", positional=True)
    delete: bool = option("delete the collection and its documents; for an alias, only the alias", default=False)
    rename: str | None = option("give the collection another name", metavar="NAME")
    swap: str | None = option("swap its name with that of another collection, in one step", metavar="OTHER")
    alias: str | None = option("make NAME an alias of the collection", metavar="NAME")

    @property
    def _changes(self) -> list[str]:
        return [name for name in ("delete", "rename", "swap", "alias") if getattr(self, name)]

    def conflicts(self) -> Iterator[str]:
        """Yield a change without a collection, or one of several."""
        if len(self._changes) > bool(self.name):
            yield f"--{self._changes[-1]} needs the name of a collection, and no other change"

    def run(self) -> None:
        """List the collections, or describe or change the one that is named."""
        from contrastive_st.search.opening import open_database, vector_store

        store_class = vector_store()  # or what to install
        from contrastive_st.search.postgres import naming

        with closing(open_database(self.store)) as database:  # keeps an embedded server running between collections
            if self.rename:
                naming.rename(database, self.name, self.rename)
                note(f"collection {self.name!r} is now called {self.rename!r}")
            elif self.swap:
                naming.swap(database, self.name, self.swap)
                note(f"{self.name!r} and {self.swap!r} have swapped their names")
            elif self.alias:
                naming.set_alias(database, self.alias, self.name)
                note(f"{self.alias!r} is now an alias of collection {self.name!r}")
            elif self.delete and database.run(
                lambda connection: naming.forget_alias(connection, database.schema, self.name)
            ):
                note(f"deleted the alias {self.name!r}, but not its collection")
            elif self.delete:
                with store_class(self.store, self.name) as store:
                    count = len(store)
                    store.drop()
                    note(f"deleted collection {self.name!r} with {count:,} documents")
            elif self.name:
                with store_class(self.store, self.name) as store:
                    say("\n".join(f"{key:12} {value}" for key, value in store.describe().items()))
            else:
                for name, collection in store_class.names(database).items():
                    if name != collection:
                        say(f"{name:20} -> {collection}")
                        continue
                    with store_class(self.store, name) as store:
                        what = f"{len(store):,} documents of {store.dimension} dimensions, index {store.index}"
                        say(f"{name:20} {what}, model {store.model}")


@dataclass
class Database(StoreCommand):
    """show the version of a store and your privileges; set up a store; print SQL for an administrator

    contrastive-st database --store postgresql://host/name --setup
    """

    setup: bool = option("create the store; needs the privileges of its owner", default=False)
    sql: Literal["owner", "writer", "reader"] | None = option(
        "print the SQL that creates this role (for owner, also the store) without running it"
    )

    def run(self) -> None:
        """Print what is asked for."""
        from contrastive_st.search.opening import open_database, vector_store
        from contrastive_st.search.postgres.database import Database as OpenDatabase
        from contrastive_st.search.postgres.dsn import split_schema
        from contrastive_st.search.postgres.roles import script
        from contrastive_st.search.postgres.server import default_store

        vector_store()  # or what to install
        if self.sql:
            say(script(self.sql, split_schema(self.store or default_store())[1]))
            return
        opened = OpenDatabase(self.store, setup=True) if self.setup else open_database(self.store)
        with closing(opened) as database:
            for name, value in database.describe().items():
                say(f"{name:12} {value}")
