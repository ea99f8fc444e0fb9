-- The schema this runs in is the first of the search path. Texts sort as their bytes do.

-- The ledger: one row an event. Appended, never changed. Its place in the log is given afterwards, in table `place`.
CREATE TABLE event (
    id        bigint  NOT NULL GENERATED ALWAYS AS IDENTITY,  -- the order of arrival, with gaps
    xid       xid8    NOT NULL DEFAULT pg_current_xact_id(),  -- the transaction that brought it
    tenant    text    COLLATE "C" NOT NULL,
    action_id text    COLLATE "C" NOT NULL,
    version   bigint  NOT NULL,                               -- 1, 2, 3 without gaps within the action
    kind      text    COLLATE "C" NOT NULL,
    at_us     bigint  NOT NULL,
    envelope  bytea   NOT NULL,
    leaf      bytea   NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);                                    -- by the order of arrival, and so by time
ALTER TABLE event ALTER COLUMN envelope SET STORAGE EXTERNAL;

CREATE FUNCTION event_is_for_good() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an event is never changed or removed' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE OR DELETE ON event
    FOR EACH ROW EXECUTE FUNCTION event_is_for_good();
CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON event
    FOR EACH STATEMENT EXECUTE FUNCTION event_is_for_good();

-- The projection of each action: what its events amount to, for lists and for finding work.
CREATE TABLE action (
    action_id        text   COLLATE "C" PRIMARY KEY,
    tenant           text   COLLATE "C" NOT NULL,
    principal        text   COLLATE "C" NOT NULL,
    run              text   COLLATE "C" NOT NULL,
    contract         text   COLLATE "C" NOT NULL,
    contract_version text   COLLATE "C" NOT NULL,
    contract_hash    text   COLLATE "C" NOT NULL,
    kind             text   COLLATE "C" NOT NULL,
    side_effect      text   COLLATE "C" NOT NULL,
    target           text   COLLATE "C" NOT NULL,
    operation        text   COLLATE "C" NOT NULL,
    key_hash         text   COLLATE "C" NOT NULL,
    stamp            text   COLLATE "C" NOT NULL,
    state            text   COLLATE "C" NOT NULL,
    hold             text   COLLATE "C" NOT NULL,
    verdict          text   COLLATE "C" NOT NULL,
    discrepancy      text   COLLATE "C" NOT NULL,
    "row"            text   COLLATE "C" NOT NULL,
    created_us       bigint NOT NULL,
    updated_us       bigint NOT NULL,
    due_us           bigint,
    lease_owner      text   COLLATE "C" NOT NULL,
    lease_until_us   bigint NOT NULL,           -- by the clock of who took it
    review           text   COLLATE "C" NOT NULL,
    incident         text   COLLATE "C" NOT NULL,
    saga             text   COLLATE "C" NOT NULL,
    claim            text   COLLATE "C" NOT NULL,
    version          bigint NOT NULL,
    fence            bigint NOT NULL,
    lease_ends_us    bigint NOT NULL,           -- by the clock of this database: it alone says whether a lease is live
    ready_us         bigint                     -- due_us, or the end of the lease if that is later
) WITH (fillfactor = 80);
CREATE INDEX action_ready ON action (tenant, ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched ON action (tenant, ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
-- Who is due of all tenants is found by time; of one tenant past any backlog of others.
CREATE INDEX action_soonest ON action (ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched_soonest ON action (ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
CREATE INDEX action_leased ON action (lease_owner) WHERE lease_owner <> '';
CREATE INDEX action_of_tenant ON action (tenant, action_id);
CREATE INDEX action_of_state ON action (tenant, state, action_id);
CREATE INDEX action_of_contract ON action (tenant, contract, action_id);
CREATE INDEX action_of_run ON action (tenant, run, action_id) WHERE run <> '';
CREATE INDEX action_of_stamp ON action (stamp, tenant) WHERE stamp <> '';
CREATE INDEX action_in_review ON action (tenant, action_id) WHERE review <> '';
CREATE INDEX action_of_saga ON action (tenant, saga, action_id) WHERE saga <> '';
CREATE INDEX action_is_saga ON action (tenant, action_id) WHERE kind = 'saga';
CREATE INDEX action_claim ON action (tenant, action_id) WHERE claim <> '';

CREATE TABLE idempotency (
    tenant       text   COLLATE "C" NOT NULL,
    key_hash     text   COLLATE "C" NOT NULL,
    request_hash text   COLLATE "C" NOT NULL,
    action_id    text   COLLATE "C" NOT NULL,
    status       text   COLLATE "C" NOT NULL,
    created_us   bigint NOT NULL,
    expires_us   bigint NOT NULL,
    PRIMARY KEY (tenant, key_hash)
) WITH (fillfactor = 80);

CREATE TABLE evidence (
    tenant text  COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    media  text  COLLATE "C" NOT NULL,
    body   bytea,                 -- NULL once erased; the digest stays
    PRIMARY KEY (digest, tenant)
);
CREATE INDEX evidence_erased ON evidence (digest, tenant) WHERE body IS NULL;

CREATE TABLE counter (
    tenant  text   COLLATE "C" NOT NULL,
    subject text   COLLATE "C" NOT NULL,
    name    text   COLLATE "C" NOT NULL,
    value   bigint NOT NULL,
    PRIMARY KEY (tenant, subject, name)
);

-- One row a subject and the action that froze it; the subject is free when its last row is gone.
CREATE TABLE frozen (
    tenant    text   COLLATE "C" NOT NULL,
    subject   text   COLLATE "C" NOT NULL,
    action_id text   COLLATE "C" NOT NULL,
    reason    text   COLLATE "C" NOT NULL,
    since_us  bigint NOT NULL,
    PRIMARY KEY (tenant, subject, action_id)
);

CREATE TABLE incident (
    tenant    text   COLLATE "C" NOT NULL,
    id        text   COLLATE "C" NOT NULL,
    cause     text   COLLATE "C" NOT NULL,
    severity  text   COLLATE "C" NOT NULL,
    action_id text   COLLATE "C" NOT NULL,
    opened_us bigint NOT NULL,
    seen      bigint NOT NULL,
    closed_us bigint NOT NULL,    -- 0: open
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX incident_open ON incident (tenant, cause) WHERE closed_us = 0;

-- Which actions were planned upon which claim.
CREATE TABLE reliance (
    tenant    text COLLATE "C" NOT NULL,
    claim     text COLLATE "C" NOT NULL,
    action_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, claim, action_id)
);

-- Ends a transaction whose changes met something else than what they were decided upon.
CREATE FUNCTION hold(kept bigint, meant bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF kept <> meant THEN
        RAISE EXCEPTION 'overtaken' USING ERRCODE = 'RB001';
    END IF;
    RETURN true;
END $$;

-- Microseconds since 1970 by this database's clock, whose alone leases are judged by.
CREATE FUNCTION clock_us() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
