"""Mail: submission over SMTP, and searches of a mailbox over IMAP."""
