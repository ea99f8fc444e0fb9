"""Real local systems, each in a process of its own, for the demo to act on.

An order service (HTTP over SQLite), a mail server (SMTP and IMAP over Maildir) and the five providers of a trip (HTTP
over five SQLite files). They lie on demand, and know nothing of what is done with their answers: no module here may
import any other part of this project.
"""
