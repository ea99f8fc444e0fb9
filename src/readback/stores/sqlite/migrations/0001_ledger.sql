-- The ledger: one row an event, in the order in which they became durable. Appended, never changed.
CREATE TABLE event (
    seq       INTEGER PRIMARY KEY,  -- 1, 2, 3 without gaps: the place of the leaf in the log
    action_id TEXT    NOT NULL,
    version   INTEGER NOT NULL,     -- 1, 2, 3 without gaps within the action
    kind      TEXT    NOT NULL,
    at_us     INTEGER NOT NULL,
    envelope  BLOB    NOT NULL,
    leaf      BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_of_action ON event (action_id, version);

CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN SELECT raise(ABORT, 'an event is never changed'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
BEGIN SELECT raise(ABORT, 'an event is never removed'); END;

-- The projection of each action: what its events amount to, for lists and for finding work.
CREATE TABLE action (
    action_id        TEXT    PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    principal        TEXT    NOT NULL,
    run              TEXT    NOT NULL,
    contract         TEXT    NOT NULL,
    contract_version TEXT    NOT NULL,
    contract_hash    TEXT    NOT NULL,
    kind             TEXT    NOT NULL,
    side_effect      TEXT    NOT NULL,
    target           TEXT    NOT NULL,
    operation        TEXT    NOT NULL,
    key_hash         TEXT    NOT NULL,
    stamp            TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    hold             TEXT    NOT NULL,
    verdict          TEXT    NOT NULL,
    discrepancy      TEXT    NOT NULL,
    "row"            TEXT    NOT NULL,
    created_us       INTEGER NOT NULL,
    updated_us       INTEGER NOT NULL,
    due_us           INTEGER,
    lease_owner      TEXT    NOT NULL,
    lease_until_us   INTEGER NOT NULL,
    version          INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    ready_us         INTEGER            -- due_us, or the end of the lease if that is later
) STRICT;
CREATE INDEX action_ready ON action (tenant, ready_us, action_id) WHERE ready_us IS NOT NULL;
CREATE INDEX action_leased ON action (lease_owner) WHERE lease_owner <> '';
CREATE INDEX action_of_tenant ON action (tenant, action_id);
CREATE INDEX action_of_state ON action (tenant, state, action_id);
CREATE INDEX action_of_contract ON action (tenant, contract, action_id);
CREATE INDEX action_of_run ON action (tenant, run, action_id) WHERE run <> '';
CREATE INDEX action_of_stamp ON action (stamp, tenant) WHERE stamp <> '';

-- With a rowid, like the tables above: keys are hashes, so that new rows land anywhere in an index; a row
-- beside its index makes that index a third of the size, and a commit a fifth smaller.
CREATE TABLE idempotency (
    tenant       TEXT    NOT NULL,
    key_hash     TEXT    NOT NULL,
    request_hash TEXT    NOT NULL,
    action_id    TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    expires_us   INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_hash)
) STRICT;

-- Bodies are large and digests random: a table in order of arrival, and a small index over the digests.
CREATE TABLE evidence (
    id     INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    media  TEXT NOT NULL,
    body   BLOB               -- NULL once erased; the digest stays, so that it is not stored again
) STRICT;
CREATE UNIQUE INDEX evidence_of_digest ON evidence (digest, tenant);

CREATE TABLE counter (
    tenant  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    value   INTEGER NOT NULL,
    PRIMARY KEY (tenant, subject, name)
) STRICT, WITHOUT ROWID;
