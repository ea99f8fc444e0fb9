-- How far each subscriber has been told what the ledger says. The ledger itself is the outbox.
CREATE TABLE subscriber (
    name      TEXT    PRIMARY KEY,
    after_seq INTEGER NOT NULL,   -- entries up to here are done: each message taken, or a dead letter
    done      INTEGER NOT NULL,   -- so many messages of the next entry are done too
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
    number     INTEGER NOT NULL,  -- which of its messages, from 0
    died_us    INTEGER NOT NULL,
    tried      INTEGER NOT NULL,
    said       TEXT    NOT NULL,
    again      INTEGER NOT NULL,  -- 1: somebody asked that it be delivered once more
    PRIMARY KEY (subscriber, seq, number)
) STRICT, WITHOUT ROWID;

-- Who was told of an incident is a position like any other now.
ALTER TABLE incident DROP COLUMN told_us;
