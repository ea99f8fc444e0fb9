"""Mail: submitting over SMTP, and searching a mailbox over IMAP."""
