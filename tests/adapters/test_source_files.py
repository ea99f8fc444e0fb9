"""Looking into a real folder: what lies there, what does not, and what leads out of it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from readback.domain.normal_form import NormalForm, widest
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ReaderFailedError, ReaderTypeError, SandboxEscapeError, UsageError
from readback.systems.files import source
from readback.systems.files import source as file_names
from readback.systems.files.source import FileSource
from readback.testing.conformance.source import SOURCE_RULES, Rule
from tests.demo.waiting import eventually

NOBODY = 65_534


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything; a test of rights has to be somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def work(root: Path) -> FileSource:
    return FileSource("work", root)


class World:
    """One file in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = FileSource("work", root)
        self.hidden = False

    def put(self, text: str) -> None:
        (self.root / "sub").mkdir(exist_ok=True)
        (self.root / "sub" / "a.txt").write_text(text)

    def remove(self) -> None:
        (self.root / "sub" / "a.txt").unlink(missing_ok=True)

    def read(self) -> Reading:
        if not self.hidden:
            return self.source.stat("sub/a.txt")
        with without_privileges():
            return self.source.stat("sub/a.txt")

    def cut(self) -> None:
        self.root.rename(self.root.with_suffix(".away"))

    def mend(self) -> None:
        if not self.root.exists():
            self.root.with_suffix(".away").rename(self.root)

    def hide(self) -> bool:
        self.root.chmod(0)
        self.hidden = True
        return True


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_a_file_source_keeps_the_rules_of_sources(rule: Rule, root: Path) -> None:
    try:
        rule(World(root))
    finally:
        if root.exists():
            root.chmod(0o700)


def test_a_file_is_shown_with_its_size_and_hash(root: Path, work: FileSource) -> None:
    (root / "a").mkdir()
    (root / "a" / "b.txt").write_bytes(b"hello")
    (root / "a" / "b.txt").chmod(0o640)
    os.utime(root / "a" / "b.txt", ns=(1, 5_000_000_789))
    found = work.stat("a/./b.txt")
    assert found.value == {
        "path": "a/b.txt",
        "kind": "file",
        "size": 5,
        "sha256": sha256(b"hello").hexdigest(),
        "mode": "0640",
        "mtime_us": 5_000_000,
    }
    assert (found.stamp, found.complete) == (None, True)


def test_a_folder_is_shown_without_a_hash(root: Path, work: FileSource) -> None:
    (root / "a").mkdir(0o750)
    found = work.stat("a")
    assert isinstance(found.value, dict)
    assert (found.value["kind"], "size" in found.value, "sha256" in found.value) == ("directory", False, False)
    (root / "a" / "new").write_text("1")
    assert found.version not in (None, work.stat("a").version)
    whole = work.stat(".")
    assert isinstance(whole.value, dict)
    assert whole.value["path"] == "."


def test_the_version_moves_with_every_write(root: Path, work: FileSource) -> None:
    (root / "a").write_text("1")
    first = work.stat("a").version
    (root / "b").write_text("1")
    (root / "b").replace(root / "a")
    assert work.stat("a").version != first


def test_a_stamp_in_the_artefact_is_found(root: Path, work: FileSource) -> None:
    (root / "a").write_text("1")
    try:
        os.setxattr(root / "a", source.STAMP_ATTRIBUTE, b"stamp-1")
    except OSError:
        assert work.stat("a").stamp is None  # a file system that holds none
    else:
        assert work.stat("a").stamp == "stamp-1"
        os.setxattr(root / "a", source.STAMP_ATTRIBUTE, b"\xff")
        assert work.stat("a").stamp is None


@pytest.mark.parametrize("path", ["missing", "sub/missing", "no/such/folder", "file/below", "dangling"])
def test_what_is_not_in_the_listing_is_absent(root: Path, work: FileSource, path: str) -> None:
    (root / "sub").mkdir()
    (root / "file").write_text("")
    (root / "dangling").symlink_to("nowhere")
    assert work.stat(path).presence is Presence.ABSENT
    assert work.text(path).presence is Presence.ABSENT


@pytest.fixture
def shut() -> Iterator[Path]:
    """A folder that others may go through, and not list."""
    folder = Path(tempfile.mkdtemp(prefix="readback-shut-"))
    (folder / "a").write_text("secret")
    (folder / "a").chmod(0)
    (folder / "dark").mkdir(0)
    folder.chmod(0o711 if os.geteuid() == 0 else 0o300)
    yield folder
    folder.chmod(0o700)
    (folder / "dark").chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.requirement("TRUTH-verdict-2")
def test_absence_needs_a_folder_that_may_be_listed(shut: Path) -> None:
    with without_privileges():
        work = FileSource("work", shut)
        assert work.stat("missing").presence is Presence.NOT_VISIBLE
        assert work.stat("dark/a").presence is Presence.NOT_VISIBLE
        assert work.tree().presence is Presence.NOT_VISIBLE
        with pytest.raises(ReaderFailedError):
            work.ping()


def test_a_file_that_is_seen_and_may_not_be_opened_is_there_without_its_hash(shut: Path) -> None:
    with without_privileges():
        found = FileSource("work", shut).stat("a")
    assert found.presence is Presence.PRESENT
    assert found.complete is False
    assert isinstance(found.value, dict)
    assert (found.value["size"], "sha256" in found.value) == (6, False)


def test_a_file_over_the_limit_is_shown_without_its_hash(root: Path) -> None:
    (root / "a").write_bytes(b"x" * 11)
    found = FileSource("work", root, hash_max_bytes=10).stat("a")
    assert isinstance(found.value, dict)
    assert ("sha256" in found.value, found.complete) == (False, False)
    (root / "a").write_bytes(b"x" * 10)
    assert FileSource("work", root, hash_max_bytes=10).stat("a").complete is True


@pytest.fixture
def outside(root: Path) -> Path:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "out").symlink_to(outside)
    (root / "up").symlink_to("../outside/secret")
    (root / "twice").symlink_to("out/secret")
    (root.parent / "work-not").mkdir()
    (root / "sibling").symlink_to("../work-not")
    return outside


@pytest.mark.requirement("INPUT-sandbox-escape")
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "sub/../../outside/secret",
        "..",
        "/etc/passwd",
        "",
        "a\0b",
        "\ud800",
        "out",
        "out/secret",
        "up",
        "twice",
        "sibling",
    ],
)
def test_a_path_that_leads_out_is_refused(outside: Path, work: FileSource, path: str) -> None:
    for look in (work.stat, work.text, work.tree):
        with pytest.raises(SandboxEscapeError):
            look(path)


@pytest.mark.requirement("INPUT-sandbox-escape")
def test_devices_pipes_and_sockets_are_refused(root: Path, work: FileSource, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(SandboxEscapeError, match="neither"):
                work.stat(name)


def test_links_inside_lead_to_what_they_mean(root: Path, work: FileSource) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "a").write_text("1")
    (root / "link").symlink_to("sub/a")
    (root / "folder").symlink_to("sub")
    for path in ("link", "folder/a"):
        found = work.stat(path)
        assert isinstance(found.value, dict)
        assert found.value["path"] == "sub/a", "the path is that of the file itself"


def test_a_root_may_be_a_link_itself(root: Path) -> None:
    (root / "a").write_text("1")
    (root.parent / "alias").symlink_to(root)
    assert FileSource("work", root.parent / "alias").stat("a").presence is Presence.PRESENT


def test_a_link_that_is_put_in_after_the_path_was_resolved_is_not_followed(
    root: Path, outside: Path, work: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "secret").write_text("mine")
    (root / "sub").mkdir()
    (root / "sub" / "secret").write_text("mine")
    resolve = os.path.realpath

    def then_swap(path: str) -> str:
        real = resolve(path)
        if path.endswith("secret"):
            (root / "secret").unlink()
            (root / "secret").symlink_to(outside / "secret")
            shutil.rmtree(root / "sub")
            (root / "sub").symlink_to(outside)
        return real

    monkeypatch.setattr(os.path, "realpath", then_swap)
    assert work.stat("secret").presence is Presence.UNAVAILABLE
    shutil.rmtree(root)
    root.mkdir()
    (root / "sub").mkdir()
    (root / "secret").write_text("mine")
    assert work.text("sub/secret").presence is Presence.UNAVAILABLE


def test_links_that_go_round_show_nothing(root: Path, work: FileSource) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert work.stat("a").presence is Presence.UNAVAILABLE


def test_a_name_that_no_file_can_have_is_not_absent(work: FileSource) -> None:
    assert work.stat("x" * 300).presence is Presence.UNAVAILABLE


def test_text_is_shown_with_its_hash(root: Path, work: FileSource) -> None:
    (root / "a").write_bytes("grüß\n".encode("latin-1"))
    found = work.text("a", encoding="latin-1")
    assert isinstance(found.value, dict)
    assert found.value["text"] == "grüß\n"
    assert found.value["sha256"] == sha256("grüß\n".encode("latin-1")).hexdigest()


@pytest.mark.requirement("INPUT-reader-wrong-type")
@pytest.mark.parametrize(
    ("content", "encoding"), [(b"\xff", "utf-8"), (b"x", "no-such-code"), (b"x" * 1_048_577, "utf-8")]
)
def test_what_is_no_text_is_a_verifier_error(root: Path, work: FileSource, content: bytes, encoding: str) -> None:
    (root / "a").write_bytes(content)
    with pytest.raises(ReaderTypeError):
        work.text("a", encoding=encoding)


@pytest.mark.parametrize("look", ["stat", "text"])
def test_a_file_that_is_written_while_it_is_read_shows_nothing(
    root: Path, work: FileSource, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    (root / "a").write_text("one")
    read = os.read

    def then_write(file: int, size: int) -> bytes:
        got = read(file, size)
        with (root / "a").open("a") as other:
            other.write("!")
        monkeypatch.setattr(os, "read", read)
        return got

    monkeypatch.setattr(os, "read", then_write)
    assert getattr(work, look)("a").presence is Presence.UNAVAILABLE
    assert getattr(work, look)("a").presence is Presence.PRESENT


def test_a_manifest_shows_every_hidden_change(root: Path, work: FileSource) -> None:
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "a").write_text("1")
    (root / "sub" / "link").symlink_to("../../outside")
    os.mkfifo(root / "pipe")
    before = work.tree()
    assert isinstance(before.value, dict)
    entries = before.value["entries"]
    assert isinstance(entries, dict)
    assert set(entries) == {"pipe", "sub", "sub/a", "sub/deep", "sub/link"}
    assert entries["pipe"] == {"kind": "other"}
    assert entries["sub/link"] == {"kind": "link", "to": "../../outside"}
    assert entries["sub/a"] == {"kind": "file", "size": 1, "mode": "0644", "sha256": sha256(b"1").hexdigest()}
    assert before.value["count"] == 5
    os.utime(root / "sub" / "a", (1, 1))
    assert work.tree().value == before.value, "what was only touched has not changed"
    (root / "sub" / "a").write_text("2")
    assert work.tree().value != before.value
    only = work.tree("sub")
    assert isinstance(only.value, dict)
    assert isinstance(only.value["entries"], dict)
    assert set(only.value["entries"]) == {"a", "deep", "link"}
    assert work.tree("nowhere").presence is Presence.ABSENT


def test_a_manifest_says_the_time_of_what_it_does_not_hash(root: Path) -> None:
    (root / "a").write_bytes(b"x" * 8)
    (root / "b").write_bytes(b"x" * 8)
    found = FileSource("work", root, hash_max_bytes=10).tree().value
    assert isinstance(found, dict)
    entries = found["entries"]
    assert isinstance(entries, dict)
    assert ["sha256" in each for each in entries.values() if isinstance(each, dict)] == [True, False]
    assert isinstance(entries["b"], dict)
    assert "mtime_us" in entries["b"]


def test_a_manifest_that_would_be_cut_is_none(root: Path, work: FileSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ENTRIES_MAX", 3)
    for name in "abc":
        (root / name).write_text("")
    assert work.tree().presence is Presence.PRESENT
    (root / "d").mkdir()
    with pytest.raises(ReaderFailedError, match="over 3"):
        work.tree()


def test_a_name_without_a_json_form_is_a_verifier_error(root: Path, work: FileSource) -> None:
    (root / os.fsdecode(b"\xff")).write_text("")
    with pytest.raises(ReaderTypeError):
        work.tree()
    with pytest.raises(ReaderTypeError):
        work.stat(os.fsdecode(b"\xff"))


def test_a_manifest_of_a_folder_that_is_gone_is_unavailable(root: Path, work: FileSource) -> None:
    root.rmdir()
    assert work.tree().presence is Presence.UNAVAILABLE


def test_a_source_has_a_name(root: Path) -> None:
    with pytest.raises(UsageError):
        FileSource("", root)


def test_a_name_that_is_a_link_is_told_to_be_one_whatever_lies_behind_it(work: FileSource, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "a.txt").write_text("a")
    for name, to in (("link", "folder/a.txt"), ("way", "folder"), ("dangling", "nowhere")):
        (root / name).symlink_to(to)
    for name in ("link", "way"):
        found = work.stat(name).value
        assert isinstance(found, dict)
        assert (found["link"], work.is_link(name)) == (True, True)
    for name in ("folder/a.txt", "way/a.txt", "folder", "folder/."):
        found = work.stat(name).value
        assert isinstance(found, dict)
        assert ("link" in found, work.is_link(name)) == (False, False)
    assert (work.stat("dangling").presence, work.is_link("dangling")) == (Presence.ABSENT, True)
    assert not work.is_link("nowhere")
    assert not work.is_link("folder/a.txt/b")
    with pytest.raises(SandboxEscapeError):
        work.is_link("../work")


def test_a_write_whose_time_was_set_back_is_another_version(root: Path, work: FileSource) -> None:
    """With the same version nothing was looked for beside what may change."""
    (root / "a.txt").write_text("before")
    first, times = work.stat("a.txt"), (root / "a.txt").stat()

    def later() -> bool:
        """The system's own time goes on in steps."""
        (root / "b.txt").write_text("")
        return (root / "b.txt").stat().st_ctime_ns > times.st_ctime_ns

    eventually(later)
    with (root / "a.txt").open("r+") as file:
        file.write("beside")
    os.utime(root / "a.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert work.stat("a.txt").version != first.version


def test_a_pipe_that_takes_a_files_place_is_not_read_as_a_file_without_lines(
    root: Path, work: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "log.jsonl").write_text('{"id": 1}\n')
    opened = os.open

    def swapped(name: str, *args: int, **more: int) -> int:
        if name == "log.jsonl":
            (root / name).unlink()
            os.mkfifo(root / name)
        return opened(name, *args, **more)

    monkeypatch.setattr(os, "open", swapped)
    assert work.lines("log.jsonl").presence is Presence.UNAVAILABLE


@pytest.mark.requirement("FILE-lies")
def test_a_file_that_holds_more_than_its_size_says_is_not_hashed_as_an_empty_one() -> None:
    system = Path("/proc/sys/kernel")
    if not (system / "ostype").is_file():
        pytest.skip("the system shows no such files here")
    shown = FileSource("system", system).stat("ostype")
    assert isinstance(shown.value, dict)
    assert (shown.complete, shown.value["size"], "sha256" in shown.value) == (False, 0, False)
    text = FileSource("system", system).text("ostype").value
    assert isinstance(text, dict)
    assert text["text"] == (system / "ostype").read_text(encoding="ascii")


# --- names as the volume and as servers take them ---


def overlooking(path: str) -> tuple[int, int] | None:
    """As a volume answers that overlooks case and Unicode forms: every alike name leads to the entry."""
    folder, name = os.path.split(path)
    listed = os.listdir(folder) if os.path.isdir(folder) else []
    entry = next((each for each in listed if widest(each) == widest(name)), None)
    if entry is None:
        return None
    seen = os.lstat(os.path.join(folder, entry))
    return seen.st_dev, seen.st_ino


@pytest.mark.requirement("IDENT-own-names")
def test_on_a_volume_that_overlooks_case_a_path_is_shown_as_its_entries_are_called(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "Folder").mkdir()
    (root / "Folder" / "résumé.TXT").write_text("a")
    assert file_names.own_names(str(root), ["FOLDER", "x"]) == (["FOLDER", "x"], False), "this volume overlooks nothing"
    monkeypatch.setattr(file_names, "_identity", overlooking)
    asked = [unicodedata.normalize("NFD", "RÉSUMÉ.txt")]
    assert file_names.own_names(str(root), ["FOLDER", *asked]) == (["Folder", "résumé.TXT"], True)
    assert file_names.own_names(str(root), ["Folder", "résumé.TXT"]) == (["Folder", "résumé.TXT"], False)
    assert file_names.own_names(str(root), ["FOLDER", "new.txt"]) == (["Folder", "new.txt"], True)
    shown = FileSource("work", root).stat("Folder/résumé.TXT")
    assert dict(shown.forms)["path"] == (NormalForm.PATH,)


@pytest.mark.requirement("IDENT-own-names")
def test_two_names_of_one_file_are_two_names_where_both_are_listed(root: Path) -> None:
    (root / "a.txt").write_text("a")
    os.link(root / "a.txt", root / "A.TXT")
    for name in ("a.txt", "A.TXT"):
        assert file_names.own_names(str(root), [name]) == ([name], False)


@pytest.mark.requirement("IDENT-own-names")
def test_a_name_that_is_not_there_stands_for_the_one_in_another_unicode_form_where_that_is_said(root: Path) -> None:
    nfc, nfd = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    (root / nfd).mkdir()
    (root / nfd / "a.txt").write_text("a")
    exact, alike = FileSource("work", root), FileSource("work", root, names="equivalent")
    assert exact.stat(f"{nfc}/a.txt").presence is Presence.ABSENT
    shown = alike.stat(f"{nfc}/a.txt").value
    assert isinstance(shown, dict)
    assert (shown["path"], "link" in shown) == (f"{nfd}/a.txt", False)
    assert alike.stat(f"{nfc}/new.txt").presence is Presence.ABSENT
    assert alike.tree(nfc).value == exact.tree(nfd).value
    (root / nfc).mkdir()  # which is there by its own name, and so it is meant
    assert alike.stat(f"{nfc}/a.txt").presence is Presence.ABSENT


@pytest.mark.requirement("IDENT-own-names")
def test_of_several_equivalent_names_none_is_meant(root: Path) -> None:
    one, other, third = "\u1eb9\u0302", "\u00ea\u0323", "\u1ec7"  # one letter with a circumflex and a dot below
    (root / one).write_text("a")
    (root / other).write_text("b")
    alike = FileSource("work", root, names="equivalent")
    assert alike.stat(third).presence is Presence.ABSENT
    assert [alike.stat(each).presence for each in (one, other)] == [Presence.PRESENT] * 2


def test_what_a_link_says_is_told_and_not_followed(work: FileSource, root: Path) -> None:
    (root / "a.txt").write_text("a")
    (root / "link").symlink_to("a.txt")
    assert (work.leads("link"), work.leads("a.txt"), work.leads("nowhere")) == ("a.txt", None, None)
