"""Verified mail: sent, looked for by its stamp after 0, 2, 4 and 8 s, contested where it was accepted and did not come.

Run it with `python examples/18-verified-mail.py`. It needs `pip install 'readback-ai[demo]'`: the demo's real SMTP and
IMAP servers stand here for yours. Time is virtual, so that nobody waits for the mails that were lost.

Prints:
    delivered: reconciled_success, in INBOX
    dropped:   unknown, though the server said: accepted; its claim is contested
    refused:   unknown, and the server said: error
    verified_mail: 7 executed
    verified at look 1: 3
    retracted: 3 (agent:digest 3)
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec

from readback import Outcome, Readback
from readback.demo.systems import Systems
from readback.recipes import CANDIDATES, timings_of, verified_mail
from readback.systems import ImapSource, SmtpExecutor
from readback.testing.runtime_virtual import VirtualRuntime

if find_spec("aiosmtpd") is None or find_spec("pymap") is None:
    sys.exit("This example needs: pip install 'readback-ai[demo]'")

ANA = "ana@acme.example"


def main() -> None:
    with Systems(only=("mail",)) as servers, tempfile.TemporaryDirectory() as folder:
        post = SmtpExecutor("post", *servers.smtp, security="none", sole=True)
        inbox = ImapSource(
            "ana's mailbox",
            *servers.imap,
            user=ANA,
            password=servers.mail_password,
            folders=["INBOX"],
            proves="delivered",
            security="none",
            candidates=CANDIDATES,
        )
        mail = verified_mail(post, inbox, sender="shop@acme.example")
        url, time = f"sqlite:///{folder}/readback.db", VirtualRuntime(seed=18)

        def send(number: int, fault: str = "") -> Outcome:
            if fault:
                servers.fault(fault, system="mail")
            with Readback.open(url, tenant="acme", principal="agent:digest", runtime=time) as rb:
                return rb.run(mail(to=ANA, subject=f"Digest {number}", text="All is well."), operation=f"{number}")

        sent = [send(number) for number in range(3)]
        lost = [send(number, "accepted_dropped") for number in range(3, 6)]
        refused = send(6, "refuse")
        assert isinstance(sent[0].authoritative, dict)
        print(f"delivered: {sent[0].state}, in {sent[0].authoritative['folder']}")
        assert lost[0].observation is not None
        assert refused.observation is not None
        said, claim = lost[0].observation.status, lost[0].said[0].status
        print(f"dropped:   {lost[0].state}, though the server said: {said}; its claim is {claim}")
        print(f"refused:   {refused.state}, and the server said: {refused.observation.status}")
        time.advance(3_700)  # nothing may arrive any more
        with Readback.open(url, tenant="acme", principal="operator:ana", runtime=time, actions=[mail]) as rb:
            rb.resume()
            for line in str(timings_of(rb, "verified_mail")).splitlines():
                if not line.startswith("unverified"):
                    print(line.partition(", half")[0])  # how long it took differs from machine to machine


if __name__ == "__main__":
    main()
