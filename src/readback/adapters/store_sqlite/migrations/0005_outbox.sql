-- How far each subscriber has been told what the ledger says. The ledger itself is the outbox.
CREATE TABLE subscriber (
    name      TEXT    PRIMARY KEY,
    after_seq INTEGER NOT NULL,   -- entries up to here are delivered, or dead letters
    tried     INTEGER NOT NULL,   -- how often the next one has been refused
    since_us  INTEGER NOT NULL,   -- when it was first refused; 0 where it was not
    next_us   INTEGER NOT NULL,   -- not before this moment
    said      TEXT    NOT NULL,   -- what the last refusal said
    owner     TEXT    NOT NULL,   -- who delivers now, and until when nobody else does
    until_us  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letter (
    subscriber TEXT    NOT NULL,
    seq        INTEGER NOT NULL,  -- the entry that was to be told
    number     INTEGER NOT NULL,  -- which of its messages: an entry may have several
    died_us    INTEGER NOT NULL,
    tried      INTEGER NOT NULL,
    said       TEXT    NOT NULL,
    PRIMARY KEY (subscriber, seq, number)
) STRICT, WITHOUT ROWID;
