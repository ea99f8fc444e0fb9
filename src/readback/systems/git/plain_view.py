"""A view of a repository under a configuration of the reader's own, in which no setting names a program.

Used by the git source alone. A repository's own configuration is data that a tool may have written: filters, text
conversions, hooks, a file system monitor, an ssh command, a proxy, a credential helper, a remote's upload-pack and a
remote helper are all programs that git would run. The view takes over a short list of settings that say how to read
files and where a remote is, and leaves out every other one. It must not run git itself: the source does.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias

SETTINGS_MAX: Final = 2_000
"""Of a repository's settings; with more, git's own environment would be too large."""
PROTOCOLS: Final = "file:git:http:https:ssh"
"""What a remote may be asked by. `ext` and other remote helpers are programs that an address names."""
LISTED: Final = ("config", "--list", "-z", "--show-scope")
"""How git is asked for the settings: it reads files for that, and runs nothing."""
PLACES: Final = ("rev-parse", "--absolute-git-dir", "--git-common-dir", "--is-inside-work-tree")
TOP: Final = ("rev-parse", "--show-toplevel")

Setting: TypeAlias = tuple[str, str]

_SHARED: Final = ("objects", "refs", "packed-refs", "info", "shallow", "logs", "reftable")
"""What working trees of one repository have together, beside its configuration and its hooks."""
_CORE: Final = (
    "attributesfile", "autocrlf", "bigfilethreshold", "checkstat", "eol", "excludesfile", "filemode", "ignorecase",
    "ignorestat", "precomposeunicode", "protecthfs", "protectntfs", "sparsecheckout", "sparsecheckoutcone", "symlinks",
    "trustctime",
)  # fmt: skip
_OF_ANYBODY: Final = re.compile(
    rf"core\.(?:{'|'.join(_CORE)})|index\.(?:sparse|skiphash)|submodule\..+\.(?:ignore|active)"
    r"|remote\..+\.url|url\..+\.insteadof",
    re.DOTALL,
)
"""Settings without a program in them, which count whatever file they are in."""
_OF_THE_USER: Final = re.compile(
    r"credential\..+|http\.(?!extraheader$).+|core\.(?:sshcommand|askpass)|ssh\.variant", re.DOTALL
)
"""How the person who runs this process reaches remotes: only from the files of that person and of the system."""
_USERS: Final = frozenset({"system", "global"})
_FORMAT: Final = {"extensions.objectformat": ("sha1", "sha256"), "extensions.refstorage": ("files", "reftable")}


def settings_of(listed: bytes) -> list[tuple[str, Setting]]:
    """The scope, name and value of each setting, as git lists them. Raises OSError for more than SETTINGS_MAX."""
    parts = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if len(parts) > 2 * SETTINGS_MAX:
        raise OSError(f"the repository has over {SETTINGS_MAX} settings")
    found: list[tuple[str, Setting]] = []
    for scope, told in zip(parts[::2], parts[1::2], strict=True):
        name, sign, value = told.partition("\n")
        found.append((scope, (name, value if sign else "true")))
    return found


def _taken_over(settings: list[tuple[str, Setting]]) -> list[Setting]:
    return [
        setting
        for scope, setting in settings
        if _OF_ANYBODY.fullmatch(setting[0]) or (scope in _USERS and _OF_THE_USER.fullmatch(setting[0]))
    ]


def _own_config(settings: list[tuple[str, Setting]], *, bare: bool) -> str:
    """What git reads of a repository's own file before anything else: how its objects and refs are kept."""
    last = dict(setting for scope, setting in settings if scope == "local")
    kept = {name: last[name].lower() for name in _FORMAT if last.get(name, "").lower() in _FORMAT[name]}
    lines = [f"[core]\n\trepositoryformatversion = {1 if kept else 0}\n\tbare = {'true' if bare else 'false'}\n"]
    if kept:
        lines.append("[extensions]\n")
        lines += [f"\t{name.partition('.')[2]} = {value}\n" for name, value in kept.items()]
    return "".join(lines)


@contextmanager
def plain_view(
    folder: str, settings: list[tuple[str, Setting]], common: str, top: str | None, plain: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """The environment under which git shows the repository whose own folder is `folder` by a configuration of ours.

    `plain`: the environment without git's own names.
    `top`: the working tree's folder, None where there is none. Raises OSError.
    """
    own = tempfile.mkdtemp(prefix="readback-git-")
    try:
        with open(os.path.join(own, "config"), "w", encoding="ascii") as file:
            file.write(_own_config(settings, bare=top is None))
        for name in _SHARED:
            os.symlink(os.path.join(common, name), os.path.join(own, name))
        more = {
            "GIT_DIR": folder,
            "GIT_COMMON_DIR": own,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": PROTOCOLS,
            "GIT_NO_LAZY_FETCH": "1",
            **({} if top is None else {"GIT_WORK_TREE": top}),
        }
        over = _taken_over(settings)
        more["GIT_CONFIG_COUNT"] = str(len(over))
        for number, (name, value) in enumerate(over):
            more[f"GIT_CONFIG_KEY_{number}"] = name
            more[f"GIT_CONFIG_VALUE_{number}"] = value
        yield {**plain, **more}
    finally:
        shutil.rmtree(own, ignore_errors=True)
