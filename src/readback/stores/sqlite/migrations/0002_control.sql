-- What keeps actions from acting, who has to be called, and whose step an action is.
ALTER TABLE action ADD COLUMN review   TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN incident TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN saga     TEXT NOT NULL DEFAULT '';
CREATE INDEX action_in_review ON action (tenant, action_id) WHERE review <> '';
CREATE INDEX action_of_saga ON action (tenant, saga, action_id) WHERE saga <> '';
CREATE INDEX action_is_saga ON action (tenant, action_id) WHERE kind = 'saga';

-- One row a subject and the action that froze it; the subject is free when its last row is gone.
CREATE TABLE freeze (
    tenant    TEXT    NOT NULL,
    subject   TEXT    NOT NULL,
    action_id TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    since_us  INTEGER NOT NULL,
    PRIMARY KEY (tenant, subject, action_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE incident (
    tenant    TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    cause     TEXT    NOT NULL,
    severity  TEXT    NOT NULL,
    action_id TEXT    NOT NULL,
    opened_us INTEGER NOT NULL,
    seen      INTEGER NOT NULL,
    told_us   INTEGER NOT NULL,   -- 0: no sink has taken it yet
    closed_us INTEGER NOT NULL,   -- 0: open
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX incident_open ON incident (tenant, cause) WHERE closed_us = 0;
