"""Verified mail over real SMTP and IMAP servers, some of whose 250s are lies; and the story of the pattern."""

from __future__ import annotations

import imaplib
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from readback import (
    Attribution,
    Context,
    Discrepancy,
    Message,
    Outcome,
    Readback,
    Reading,
    Subscriber,
    Verdict,
    action,
    reader,
)
from readback.contracts.functions.callables import Reader
from readback.demo.systems.launch import Systems
from readback.domain.action.claim import ClaimStatus
from readback.domain.events import Event, EventKind, open_envelope
from readback.domain.state import State
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Presence
from readback.errors import ContractFieldError, ToolTimeoutError, UsageError
from readback.recipes import CANDIDATES, MailAction, timings_of, verified_mail
from readback.recipes.mail import subject_as_asked, text_as_asked
from readback.systems import ImapSource, SmtpExecutor
from tests.recipes.conftest import Desk

SHOP, ANA, BEN = "shop@acme.example", "ana@acme.example", "ben@acme.example"
ARCHIVE: Final = "All Mail"
HEADER: Final = "X-Stamp"
"""The demo's servers know a mail's stamp by this header."""
Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems(only=("mail",)) as systems:
        for user in (ANA, BEN):
            with imaplib.IMAP4(*systems.imap) as box:
                box.login(user, systems.mail_password)
                box.create(f'"{ARCHIVE}"')
        yield systems


@pytest.fixture
def systems(running: Systems) -> Iterator[Systems]:
    yield running
    running.clear_faults()


class Post:
    """The shop's post office: it sends over SMTP and looks over IMAP."""

    def __init__(self, systems: Systems, desk: Desk) -> None:
        self.systems = systems
        self.desk = desk
        self.smtp = SmtpExecutor("post", *systems.smtp, security="none", sole=True)

    def box(self, user: str = ANA, *, folders: tuple[str, ...] = ("INBOX", ARCHIVE), **given: Any) -> ImapSource:
        known: dict[str, Any] = {
            "user": user, "password": self.systems.mail_password, "proves": "delivered", "folders": folders,
            "security": "none", "timeout_s": 30, "candidates": CANDIDATES,
        }  # fmt: skip
        return ImapSource(f"mailbox of {user}", *self.systems.imap, **{**known, **given})

    def action(self, box: ImapSource | None = None, **choices: Any) -> MailAction:
        return verified_mail(self.smtp, box or self.box(), sender=SHOP, header=HEADER, **choices)

    def send(self, subject: str, *, box: ImapSource | None = None, to: str = ANA, lane: str = "alerts") -> Outcome:
        with self.desk.open(f"agent:{lane}") as rb:
            return rb.run(self.action(box)(to=to, subject=subject, text="It left."), operation=subject)

    def again(self, outcome: Outcome, action: MailAction | None = None) -> Outcome:
        """What is said of it once nothing may arrive any more."""
        self.desk.later(3_700, action or self.action())
        with self.desk.open() as rb:
            return rb.get(outcome.id)

    def events(self, outcome: Outcome, *kinds: EventKind) -> list[Event]:
        opened = [open_envelope(each.envelope).event for each in self.desk.store.reopened().events(outcome.id)]
        return [event for event in opened if event.kind in kinds]

    def looks(self, outcome: Outcome) -> list[float]:
        """When it was looked for, in seconds after the answer."""
        (answered,) = (event.data["ended"] for event in self.events(outcome, EventKind.OBSERVED))
        checks = [e.data for e in self.events(outcome, EventKind.READ) if e.data["role"] == "check"]
        return [(int(str(data["started"])) - int(str(answered))) / 1_000_000 for data in checks]

    def happened(self, outcome: Outcome) -> ClaimStatus:
        """What was said last of its claim that it happened."""
        said = [e.kind for e in self.events(outcome, *SAID) if e.data["claim"] == "happened"]
        return SAID[said[-1]] if said else ClaimStatus.NONE


SAID: Final = {
    EventKind.CLAIM_CONTESTED: ClaimStatus.CONTESTED,
    EventKind.CLAIM_RETRACTED: ClaimStatus.RETRACTED,
    EventKind.CLAIM_REINSTATED: ClaimStatus.REINSTATED,
}


@pytest.fixture
def post(systems: Systems, desk: Desk) -> Post:
    return Post(systems, desk)


def shown(outcome: Outcome, name: str) -> object:
    return outcome.authoritative.get(name) if isinstance(outcome.authoritative, dict) else None


@pytest.mark.requirement("RECIPE-mail")
def test_a_mail_that_arrived_is_verified_at_the_first_look(post: Post, fresh: Fresh) -> None:
    told = post.send(fresh("arrived"))
    assert told.verified
    assert told.proves == "delivered"
    assert told.attribution is Attribution.OURS
    assert len(post.looks(told)) == 1
    assert not post.events(told, EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED)


@pytest.mark.requirement("RECIPE-mail")
@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("ends with a line feed", "It left.\n\n"),
        ("lines of another system", "It left.\r\nIt is there."),
        ("Grüße an alle Freunde, " * 8, "Es ging ab."),
        ("x" * 300, "It left."),
        (" blanks  around ", "  It left. "),
        ("a long line", "word " * 600),
    ],
)
def test_what_mail_does_to_blanks_and_line_ends_is_no_other_mail(
    post: Post, fresh: Fresh, subject: str, text: str
) -> None:
    with post.desk.open() as rb:
        told = rb.run(post.action()(to=ANA, subject=subject, text=text), operation=fresh("mail"))
    assert told.verified, (told.discrepancy, told.authoritative)


@pytest.mark.requirement("RECIPE-mail", "IDENT-normal-form")
def test_an_address_is_the_same_whatever_the_case_of_its_domain_and_its_local_part_is_not(
    post: Post, fresh: Fresh
) -> None:
    capitals, other = "ana@ACME.example", "Ana@acme.example"
    with post.desk.open() as rb:
        told = rb.run(post.action()(to=capitals, subject=fresh("domain"), text="Hi."), operation=fresh("mail"))
        assert told.verified, told.detail
        refused = rb.run(post.action()(to=other, subject=fresh("local"), text="Hi."), operation=fresh("mail"))
    assert (refused.attempts, refused.code) == (0, "precondition")


@pytest.mark.requirement("MAIL-line-ends")
@pytest.mark.parametrize("text", ["Hi.", "Hi.\n", "Hi.\r\nBye.", "one\rtwo\n\r\n\n", "Grüße\n"])
def test_the_digest_is_that_of_the_text_as_it_was_sent(post: Post, fresh: Fresh, text: str) -> None:
    with post.desk.open() as rb:
        told = rb.run(post.action()(to=ANA, subject=fresh("ends"), text=text), operation=fresh("mail"))
    assert told.verified
    assert shown(told, "body_sha256") == sha256(text.encode()).hexdigest()


@pytest.mark.requirement("MAIL-several")
def test_a_recipient_that_was_refused_is_told_as_the_part_that_is_missing(post: Post, fresh: Fresh) -> None:
    def of(user: str) -> Reader:
        box = post.box(user)

        @reader(source=user, consistency="strong", independence="other_system", name=user)
        def look(ctx: Context) -> Reading:
            return box.by_stamp(ctx, header=HEADER)

        return look

    @action(
        kind="send", side_effect="medium_risk_write", target="mail/{requested.subject}", quorum=2, within="1s",
        identity={"target": "authoritative.mailbox in requested.to", "tenant": "not_offered", "actor": "not_offered",
                  "stamp": "authoritative.stamp"},
        ensure={"subject": "authoritative.subject == requested.subject"}, proves="delivered",
        readers=[of(ANA), of(BEN)],
    )  # fmt: skip
    def write_to(ctx: Context, to: list[str], subject: str) -> object:
        return post.smtp.send(ctx, sender=SHOP, to=to, subject=subject, text="Hi.", stamp_header=HEADER)

    with post.desk.open() as rb:
        both = rb.run(write_to(to=[ANA, BEN], subject=fresh("both")), operation=fresh("mail"))
        told = rb.run(write_to(to=[ANA, "nobody@acme.example"], subject=fresh("one")), operation=fresh("mail"))
    assert both.verified
    assert (told.verdict, told.discrepancy) == (Verdict.REFUTED, Discrepancy.PARTIAL_APPLICATION)
    assert (told.parts_done, told.parts_open) == ((ANA,), (BEN,))


@pytest.mark.requirement("RECIPE-mail")
@pytest.mark.parametrize("field", ["subject", "body_sha256"])
@pytest.mark.parametrize("shown", ["something else", None])
def test_another_text_or_subject_is_no_success_and_an_unknown_one_no_failure(field: str, shown: str | None) -> None:
    asked: dict[str, Any] = {"subject": "s", "text": "t"}
    check = subject_as_asked if field == "subject" else text_as_asked
    assert check(asked, {field: shown}) is (False if shown else None)


@pytest.mark.requirement("RECIPE-mail", "CLAIM-backoff")
def test_a_mail_that_is_not_there_is_looked_for_four_times_and_then_ever_more_slowly(post: Post, fresh: Fresh) -> None:
    post.systems.fault("accepted_dropped", system="mail")
    told = post.send(fresh("dropped"))
    assert told.state is State.UNKNOWN
    looks = post.looks(told)
    assert len(looks) == 4
    assert looks[0] == 0
    for at, planned in zip(looks[1:], (2, 6, 14), strict=True):
        assert planned <= at <= planned * 1.11
    assert looks[-1] == 14  # the window's last look is at its very close


@pytest.mark.requirement("RECIPE-mail")
def test_what_was_accepted_and_not_found_is_contested_at_once_and_a_person_decides_when_nothing_may_arrive_any_more(
    post: Post, fresh: Fresh
) -> None:
    post.systems.fault("accepted_dropped", system="mail")
    told = post.send(fresh("dropped"))
    (contested,) = post.events(told, EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED)
    assert contested.kind is EventKind.CLAIM_CONTESTED
    assert contested.data["confidence"] == "0.99"  # it may still arrive
    assert told.state is State.UNKNOWN
    assert not told.may_repeat
    with post.desk.open() as rb:
        assert not rb.is_claim_standing(told.id)
    ended = post.again(told)
    assert (ended.state, ended.may_repeat) == (State.REVIEW_REQUIRED, False)  # a mailbox has more folders than these
    assert not ended.verified


@pytest.mark.requirement("RECIPE-mail")
def test_a_refused_mail_was_never_claimed_and_retracts_nothing(post: Post, fresh: Fresh) -> None:
    post.systems.fault("refuse", system="mail")
    told = post.send(fresh("refused"))
    assert not told.verified
    assert told.observation is not None
    assert told.observation.status is ObservationStatus.ERROR
    assert not post.again(told).verified
    assert not post.events(told, EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED)


@pytest.mark.requirement("RECIPE-mail", "L12")
def test_l12_a_refusal_that_came_after_delivery_is_seen_through(post: Post, fresh: Fresh) -> None:
    post.systems.fault("error_after_commit", system="mail")
    told = post.send(fresh("refused and delivered"))
    assert told.verified
    assert len(post.systems.truth.mails(mailbox=ANA, stamp=told.stamp)) == 1


@pytest.mark.requirement("RECIPE-mail")
def test_a_mail_that_was_filed_late_and_elsewhere_is_found_and_its_claim_reinstated(
    post: Post, systems: Systems, fresh: Fresh
) -> None:
    systems.fault("accepted_dropped", system="mail")
    subject = fresh("filed late")
    told = post.send(subject)
    assert post.happened(told) is ClaimStatus.CONTESTED
    _file(systems, ANA, ARCHIVE, _mail(subject, told.stamp))
    post.desk.later(60, post.action())
    with post.desk.open() as rb:
        ended = rb.get(told.id)
    assert ended.verified
    assert shown(ended, "folder") == ARCHIVE
    assert post.happened(told) is ClaimStatus.REINSTATED


def _mail(subject: str, stamp: str) -> str:
    return f"From: {SHOP}\r\nTo: {ANA}\r\nSubject: {subject}\r\n{HEADER}: {stamp}\r\n\r\nIt left.\r\n"


def _file(systems: Systems, user: str, folder: str, *mails: str) -> None:
    with imaplib.IMAP4(*systems.imap) as box:
        box.login(user, systems.mail_password)
        for mail in mails:
            assert box.append(f'"{folder}"', "", "", mail.encode())[0] == "OK"


@pytest.mark.requirement("RECIPE-mail", "CLAIM-other-path")
@pytest.mark.parametrize("stamp", ["{}-2", "x{}", "{} {}"])
def test_a_header_that_only_resembles_the_stamp_is_no_match(
    post: Post, systems: Systems, fresh: Fresh, stamp: str
) -> None:
    systems.fault("accepted_dropped", system="mail")
    told = post.send(fresh("resembles"))
    _file(systems, ANA, "INBOX", _mail("resembles", stamp.format(told.stamp, told.stamp)))
    assert not post.again(told).verified


@pytest.mark.requirement("RECIPE-mail")
def test_more_candidates_than_are_looked_at_are_not_taken_for_absence(
    post: Post, systems: Systems, fresh: Fresh
) -> None:
    stamp = fresh("rb-crowd")
    _file(systems, ANA, "INBOX", *(_mail("crowd", f"{stamp}-{number}") for number in range(CANDIDATES)))
    assert post.box().by_stamp(_context(stamp), header=HEADER).presence is Presence.ABSENT
    _file(systems, ANA, "INBOX", _mail("crowd", f"{stamp}-more"))
    assert post.box().by_stamp(_context(stamp), header=HEADER).presence is Presence.NOT_VISIBLE
    with pytest.raises(UsageError):
        post.box(candidates=0)


@pytest.mark.requirement("RECIPE-mail")
@pytest.mark.parametrize(
    ("fault", "params", "discrepancy"),
    [
        ("duplicate", {}, Discrepancy.DUPLICATE_SIDE_EFFECT),
        ("wrong_value", {"old": "It left.", "new": "It stayed."}, Discrepancy.VALUE_MISMATCH),
        ("wrong_mailbox", {"mailbox": BEN}, None),
    ],
)
def test_a_mail_that_came_twice_changed_or_to_another_is_not_verified(
    post: Post, systems: Systems, fresh: Fresh, fault: str, params: dict[str, Any], discrepancy: Discrepancy | None
) -> None:
    systems.fault(fault, system="mail", **params)
    told = post.send(fresh(fault))
    assert not told.verified
    if discrepancy is not None:
        assert told.discrepancy is discrepancy


ALTERNATIVE = (
    "From: {sender}\r\nTo: {to}\r\nSubject: {subject}\r\n{header}: {stamp}\r\nMIME-Version: 1.0\r\n"
    "Content-Type: multipart/{kind}; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nIt left.\r\n"
    "--b\r\nContent-Type: {other}\r\n\r\n<p>Pay to another account.</p>\r\n--b--\r\n"
)


@pytest.mark.requirement("RECIPE-mail")
@pytest.mark.parametrize(("kind", "other"), [("alternative", "text/html"), ("mixed", "application/octet-stream")])
def test_a_text_beside_which_a_relay_put_something_else_is_not_verified(
    post: Post, systems: Systems, fresh: Fresh, kind: str, other: str
) -> None:
    """Its plain text was as asked for, and what mail programs show of it another."""
    systems.fault("accepted_dropped", system="mail")
    subject = fresh("relayed")
    told = post.send(subject)
    relayed = {"sender": SHOP, "to": ANA, "subject": subject, "header": HEADER, "stamp": told.stamp}
    _file(systems, ANA, "INBOX", ALTERNATIVE.format(**relayed, kind=kind, other=other))
    again = post.again(told)
    assert not again.verified, again.message
    assert shown(again, "parts") == 2
    assert not again.verified


class Cut(SmtpExecutor):
    """The server takes the message over, and its reply is lost on the way."""

    def _hand_over(self, smtp: Any, content: bytes, watch: Any) -> tuple[int, bytes]:
        super()._hand_over(smtp, content, watch)
        smtp.close()
        raise ToolTimeoutError("The reply was lost.")


@pytest.mark.requirement("RECIPE-mail", "L07")
def test_l07_a_mail_whose_250_was_lost_is_found_and_not_sent_again(post: Post, systems: Systems, fresh: Fresh) -> None:
    post.smtp = Cut("post", *systems.smtp, security="none")
    told = post.send(fresh("no reply"))
    assert told.verified
    assert told.attempts == 1
    assert len(systems.truth.mails(mailbox=ANA, stamp=told.stamp)) == 1


@pytest.mark.requirement("RECIPE-mail", "L11")
def test_l11_the_senders_own_folder_proves_submission_and_no_delivery(
    post: Post, systems: Systems, fresh: Fresh
) -> None:
    systems.fault("accepted_dropped", system="mail")
    sent = post.box(SHOP, folders=("Sent",), proves="submitted")
    told = post.send(fresh("submitted"), box=sent)
    assert told.verified  # it was submitted, and nothing more is said
    assert told.proves == "submitted"
    with pytest.raises(ContractFieldError):
        post.box(SHOP, folders=("Sent",))


@pytest.mark.requirement("RECIPE-mail", "INPUT-header-injection")
@pytest.mark.parametrize("subject", ["Hi\r\nBcc: eve@example.com", "Hi\nX: y"])
def test_what_would_end_a_header_is_refused_and_nothing_is_sent(
    post: Post, systems: Systems, fresh: Fresh, subject: str
) -> None:
    with post.desk.open() as rb:
        told = rb.run(post.action()(to=ANA, subject=subject, text="."), operation=fresh("smuggled"))
    assert not told.verified
    assert systems.truth.mails(mailbox=ANA, stamp=told.stamp) == []
    assert not post.events(told, EventKind.CLAIM_CONTESTED)


@pytest.mark.requirement("RECIPE-mail")
def test_a_mailbox_that_does_not_open_says_nothing(post: Post, fresh: Fresh) -> None:
    told = post.send(fresh("locked"), box=post.box(password="not it"))
    assert told.verdict is Verdict.UNDETERMINED
    gone = post.send(fresh("no folder"), box=post.box(folders=("Elsewhere",)))
    assert gone.verdict is Verdict.UNDETERMINED


@pytest.mark.requirement("RECIPE-mail")
def test_each_recipient_may_have_a_mailbox(post: Post, fresh: Fresh) -> None:
    action = verified_mail(post.smtp, {ANA: post.box(), BEN: post.box(BEN)}, sender=SHOP, header=HEADER)
    with post.desk.open() as rb:
        for to in (ANA, BEN):
            told = rb.run(action(to=to, subject="Hello", text="."), operation=fresh("each"))
            assert told.verified
            assert shown(told, "mailbox") == to
        stranger = rb.run(action(to=SHOP, subject="Hello", text="."), operation=fresh("stranger"))
    assert stranger.attempts == 0  # nothing is sent that could not be looked for
    with pytest.raises(ContractFieldError):
        verified_mail(post.smtp, {ANA: post.box(), SHOP: post.box(SHOP, proves="submitted")}, sender=SHOP)


@pytest.mark.requirement("RECIPE-mail")
def test_folders_that_show_the_same_messages_show_no_duplicates(post: Post, systems: Systems, fresh: Fresh) -> None:
    told = post.send(fresh("labelled"))
    _file(systems, ANA, ARCHIVE, _mail("labelled", told.stamp))
    ctx = _context(told.stamp)
    assert len(post.box().find(ctx, header=HEADER)) == 2
    assert len(post.box(overlapping=True).find(ctx, header=HEADER)) == 1


def _context(stamp: str) -> Context:
    return Context("a", "acme", "agent:post", "op", "mailbox/x", "key", stamp)


@pytest.mark.requirement("RECIPE-mail-story", "RECIPE-timings")
def test_eleven_dropped_mails_are_caught_and_after_the_mending_five_are_verified_at_once(
    post: Post, systems: Systems, fresh: Fresh
) -> None:
    """The first hour of the pattern's own production: what was lost is caught, what arrived is not doubted."""
    dropped = []
    for _ in range(11):
        systems.fault("accepted_dropped", system="mail")
        dropped.append(post.send(fresh("digest"), lane="digest"))
    systems.clear_faults()
    mended = [post.send(fresh("digest"), lane="digest") for _ in range(5)]
    refused = []
    for _ in range(2):
        systems.fault("refuse", system="mail")
        refused.append(post.send(fresh("digest"), lane="alerts"))

    assert {post.happened(each) for each in dropped} == {ClaimStatus.CONTESTED}
    post.desk.later(3_700, post.action())  # nothing may arrive any more
    for told in dropped:
        assert not told.verified
        assert told.observation is not None
        assert told.observation.status is ObservationStatus.ACCEPTED
        assert len(post.looks(told)) == 5  # four in the window, and one at the very end
        assert post.happened(told) is ClaimStatus.RETRACTED
        assert systems.truth.mails(mailbox=ANA, stamp=told.stamp) == []
    for told in mended:
        assert told.verified
        assert len(post.looks(told)) == 1
        assert post.happened(told) is ClaimStatus.NONE  # nothing was said against it
    for told in refused:
        assert not told.verified
        assert post.happened(told) is ClaimStatus.NONE  # nothing was claimed
    with post.desk.open() as rb:
        timings = timings_of(rb, "verified_mail")
        unverified = [each for each in rb.list(limit=50) if not each.verified]
    assert {each.id for each in unverified} == {each.id for each in (*dropped, *refused)}
    assert all(systems.truth.mails(mailbox=ANA, stamp=each.stamp) == [] for each in unverified)  # no false alarm
    assert {look: spread.count for look, spread in timings.verified.items()} == {1: 5}
    assert timings.verified[1].longest_us < 2_000_000  # of the servers' own time
    assert timings.unverified.count == 13
    assert timings.unverified.percentile_us(50) >= 14_000_000
    assert dict(timings.retracted) == {"agent:digest": 11}
    text = str(timings)
    assert "verified at look 1: 5" in text
    assert "retracted: 11 (agent:digest 11)" in text


@pytest.mark.requirement("RECIPE-mail-story")
def test_what_was_lost_is_told_under_both_names_and_to_the_operator_where_the_bus_is_dead(
    systems: Systems, fresh: Fresh, tmp_path: Path, desk: Desk
) -> None:
    post, heard = Post(systems, desk), list[Message]()

    def dead(message: Message) -> None:
        raise ConnectionError("the bus does not acknowledge")

    names = ("verification.failed", "claim.contested", "claim.retracted")
    listeners = [
        Subscriber("mesh", tell=heard.append, naming="both", events=names),
        Subscriber("bus", tell=dead, events=names, attempts=1, give_up_s=1),
    ]
    with Readback.open(
        f"sqlite:///{tmp_path}/r.db",
        tenant="acme",
        principal="agent:digest",
        runtime=desk.runtime,
        subscribers=listeners,
    ) as rb:
        systems.fault("accepted_dropped", system="mail")
        rb.run(post.action()(to=ANA, subject="lost", text="."), operation=fresh("lost"))
        systems.fault("refuse", system="mail")
        rb.run(post.action()(to=ANA, subject="refused", text="."), operation=fresh("refused"))
        for _ in range(10):  # one message of an action after the other
            assert rb._session.courier.flush(60)
            desk.runtime.advance(600)
            rb.resume()
        assert rb._session.courier.flush(60)
    said = [str(message.as_json()["type"]).replace("readback", "")[1:] for message in heard]
    assert set(said) == {*names, *(name.replace(".", "_") for name in names)}
    assert said.count("claim.retracted") == 1  # of what was accepted; the refused one was never claimed
    fallen = "".join(each.read_text() for each in tmp_path.iterdir() if each.suffix == ".jsonl")
    assert all(f"readback.{name}" in fallen for name in names)
