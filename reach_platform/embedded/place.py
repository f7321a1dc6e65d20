"""Where the embedded servers of one data directory live, and who runs them."""

import os
import pwd
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

MACHINE_DIR = Path("/var/tmp")  # noqa: S108 - only directories of our own, with random names, are made in it
SERVER_USERS = ("postgres", "nobody")
LONGEST_SOCKET_PATH = 107
OWNER = "owner"


class PlaceError(Exception):
    """The embedded servers cannot live there; the text says why and what to do."""


@dataclass(frozen=True)
class Place:
    """The directories of one data directory's servers.

    `home` holds PostgreSQL's data and socket. It is the data directory itself, unless root starts the servers (then
    PostgreSQL runs as `server_user`, who may not go into closed directories) or the socket's path would be too long:
    then it is a directory of its own under /var/tmp.
    """

    data_dir: Path
    home: Path
    server_user: str | None

    @classmethod
    def of(cls, data_dir: Path) -> "Place":
        """Returns the place of a data directory, which is made if absent; raises PlaceError."""
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise PlaceError(f"The data directory {data_dir} cannot be made: {error.strerror}.") from None
        if not os.access(data_dir, os.W_OK | os.X_OK):
            raise PlaceError(f"The data directory {data_dir} belongs to another user: set REACH_DATA_DIR to your own.")
        server_user = _server_user() if os.geteuid() == 0 else None
        home = data_dir
        if server_user or len(os.fsencode(data_dir / "run/.s.PGSQL.5432")) > LONGEST_SOCKET_PATH:
            # The name is random and kept in the data directory: one that is made anew never meets old data.
            identity = kept_secret(data_dir / "id", lambda: secrets.token_hex(6))
            home = MACHINE_DIR / f"agent-reach-{identity}"
        return cls(data_dir, home, server_user)

    @property
    def pg_data(self) -> Path:
        return self.home / "pg"

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def redis_socket(self) -> Path:
        # Redis runs as who starts it: its socket needs no directory that others may go into.
        return (self.data_dir if self.server_user else self.home) / "redis.sock"

    @property
    def database_url(self) -> str:
        return f"postgresql:///reach?host={quote(str(self.run_dir), safe='/')}&user=reach"

    @property
    def redis_url(self) -> str:
        return f"unix://{self.redis_socket}"

    def kept_secret(self, name: str, make: Callable[[], str]) -> str:
        """Returns the text kept in this file of the data directory, made at the first call (mode 0600)."""
        return kept_secret(self.data_dir / name, make)

    def prepare(self) -> None:
        """Makes the directories, for no other user to enter; raises PlaceError."""
        for socket in (self.run_dir / ".s.PGSQL.5432", self.redis_socket):
            if (length := len(os.fsencode(socket))) > LONGEST_SOCKET_PATH:
                raise PlaceError(
                    f"The socket path {socket} has {length} bytes and the system allows {LONGEST_SOCKET_PATH}: "
                    "set REACH_DATA_DIR to a shorter path."
                )
        if self.home != self.data_dir:
            self._prepare_machine_home()
        user = pwd.getpwnam(self.server_user) if self.server_user else None
        for directory in (self.pg_data, self.run_dir):
            directory.mkdir(mode=0o700, exist_ok=True)
            if user:
                os.chown(directory, user.pw_uid, user.pw_gid)
            directory.chmod(0o700)

    def _prepare_machine_home(self) -> None:
        # Traversable, and nothing more, for the server's user; what is inside is closed to everyone else.
        self.home.mkdir(mode=0o711, exist_ok=True)
        found = self.home.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PlaceError(f"{self.home} is not a directory of this user's: remove it and start again.")
        self.home.chmod(0o711)
        (self.home / OWNER).write_text(f"{self.data_dir}\n{os.uname().nodename}\n", "utf-8")


def kept_secret(path: Path, make: Callable[[], str]) -> str:
    """Returns the text kept in a file (mode 0600), made at the first call; two first calls at once agree."""
    try:
        if not path.exists():
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.touch(mode=0o600)
            draft.write_text(make(), "utf-8")
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            draft.unlink()
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise PlaceError(f"{path} cannot be read or made: {error.strerror}.") from None


def remove_stale_homes() -> list[Path]:
    """Removes and returns the homes under /var/tmp whose data directory is gone or has another home by now."""
    removed = [home for home in MACHINE_DIR.glob("agent-reach-*") if _is_stale(home)]
    for home in removed:
        shutil.rmtree(home, ignore_errors=True)
    return removed


def _is_stale(home: Path) -> bool:
    try:
        if home.is_symlink() or home.lstat().st_uid != os.geteuid() or running_server(home / "pg"):
            return False
        owner, node = (home / OWNER).read_text("utf-8").splitlines()
        data_dir = Path(owner)
        # Another container may share /var/tmp, and a disk may not be mounted now: neither is a deleted directory.
        if node != os.uname().nodename or not (data_dir.parent.is_dir() or _is_old(home)):
            return False
        kept = data_dir / "id"
        return not kept.exists() or home.name != f"agent-reach-{kept.read_text('utf-8').strip()}"
    except (OSError, ValueError):
        return False  # no owner marker of ours, or not ours to read


def _is_old(home: Path) -> bool:
    return time.time() - (home / OWNER).stat().st_mtime > 7 * 86400


def running_server(pg_data: Path) -> int | None:
    """Returns the process id of the PostgreSQL server that runs on this data, if one does."""
    try:
        pid = int((pg_data / "postmaster.pid").read_text("utf-8").split("\n", 1)[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # The file outlives a crash, and its number may belong to another program by now.
    return pid if os.fsencode(pg_data) in command else None


def _server_user() -> str:
    for name in SERVER_USERS:
        try:
            if pwd.getpwnam(name).pw_uid != 0:
                return name
        except KeyError:
            continue
    raise PlaceError(
        "PostgreSQL refuses to run as root and this machine has neither a user postgres nor nobody: "
        "run as another user, or set DATABASE_URL and REDIS_URL."
    )
