"""What counts as at hand: regular files on a disk of this machine, and nothing that may have to be waited for."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from readback.systems.files.local_disk import LocalDiskCheck

pytestmark = pytest.mark.requirement("FILE-glance")


def mounted(tmp_path: Path, *lines: tuple[str, str]) -> Path:
    """A list of mounts as Linux writes it: where, and of which kind."""
    written = tmp_path / "mountinfo"
    rows = [
        f"{n} 1 8:{n} / {at} rw,relatime shared:{n} - {kind} /dev/disk{n} rw\n" for n, (at, kind) in enumerate(lines)
    ]
    written.write_text("".join(rows), encoding="utf-8")
    return written


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "a.txt"
    path.parent.mkdir()
    path.write_text("hello", encoding="utf-8")
    return path


def learned(mounts: Path | str, path: Path) -> LocalDiskCheck:
    near = LocalDiskCheck(mounts)
    near.learn(str(path))
    return near


def test_a_file_on_an_own_disk_is_at_hand_once_that_was_found_out(tmp_path: Path, file: Path) -> None:
    near = LocalDiskCheck(mounted(tmp_path, ("/", "ext4")))
    assert not near.hold(str(file)), "nothing is known yet"
    near.learn(str(file))
    assert near.hold(str(file))
    assert near.hold(str(file), 5)
    assert not near.hold(str(file), 4), "it is larger"
    assert near.hold(str(file.with_name("not-there"))), "that it is not there is seen at once too"
    assert not near.hold(str(file / "below"))
    assert not near.hold(str(tmp_path / "nowhere" / "at" / "all"))


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "cifs", "9p", "virtiofs", "autofs", ""])
def test_what_another_machine_or_program_may_serve_is_not(kind: str, tmp_path: Path, file: Path) -> None:
    assert not learned(mounted(tmp_path, ("/", kind)), file).hold(str(file))


def test_the_nearest_mount_counts_and_of_two_at_one_place_the_later(tmp_path: Path, file: Path) -> None:
    folder = str(file.parent)
    assert not learned(mounted(tmp_path, (folder, "nfs"), ("/", "ext4")), file).hold(str(file))
    assert learned(mounted(tmp_path, ("/", "nfs"), (folder, "xfs")), file).hold(str(file))
    assert not learned(mounted(tmp_path, ("/", "ext4"), ("/", "nfs")), file).hold(str(file))
    assert learned(mounted(tmp_path, ("/", "ext4"), (folder[:-1], "nfs")), file).hold(str(file)), "another folder"


def test_a_mount_whose_name_has_spaces_and_a_link_that_leads_there_are_known(tmp_path: Path) -> None:
    far = tmp_path / "far away"
    far.mkdir()
    (far / "a").write_text("x", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to(far / "a")
    mounts = mounted(tmp_path, ("/", "ext4"), (str(far).replace(" ", r"\040"), "nfs"))
    assert not learned(mounts, link).hold(str(link))


def test_what_is_no_regular_file_is_never_at_hand(tmp_path: Path, file: Path) -> None:
    near = learned(mounted(tmp_path, ("/", "ext4")), file)
    os.mkfifo(tmp_path / "pipe")
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert not near.hold(str(tmp_path / "socket"))
    assert not near.hold(str(tmp_path / "pipe"))
    assert not near.hold(str(tmp_path))
    assert not near.hold("nul\0byte")


def test_another_device_has_to_be_found_out_by_itself(tmp_path: Path, file: Path) -> None:
    near = learned(mounted(tmp_path, ("/", "ext4")), file)
    assert os.stat("/proc").st_dev != file.stat().st_dev
    assert not near.hold("/proc/readback-is-not-there")


def test_without_a_list_of_mounts_nothing_is(tmp_path: Path, file: Path) -> None:
    assert not learned(tmp_path / "none", file).hold(str(file))
    (tmp_path / "odd").write_text("no mount at all\n1 2 3:4 / /\n", encoding="utf-8")
    assert not learned(tmp_path / "odd", file).hold(str(file))


def test_this_machine_s_own_list_is_read(file: Path) -> None:
    near = LocalDiskCheck()
    near.learn("/proc/self/stat")
    assert not near.hold("/proc/self/stat")
