-- Where each entry stands in the log: given in batches, by one at a time, after the entry is durable. Never changed.
CREATE TABLE place (
    seq   bigint PRIMARY KEY,      -- 1, 2, 3 without gaps: the place of the leaf in the log
    event bigint NOT NULL UNIQUE   -- the entry's arrival
);
CREATE TRIGGER place_is_never_changed BEFORE UPDATE OR DELETE ON place
    FOR EACH ROW EXECUTE FUNCTION event_is_for_good();
CREATE TRIGGER place_is_never_emptied BEFORE TRUNCATE ON place
    FOR EACH STATEMENT EXECUTE FUNCTION event_is_for_good();
CREATE INDEX event_of_xid ON event (xid, id);

-- How far places have been given. One row, changed together with the places.
CREATE TABLE sequencer (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster bigint NOT NULL,       -- the server whose transactions the numbers below are
    since   xid8   NOT NULL,       -- entries of earlier transactions have their places
    upto    xid8   NOT NULL,       -- entries of transactions before this one are being placed: all of those had ended
    after   bigint,                -- of these, up to this arrival; NULL where none are being placed
    entries_a_partition bigint NOT NULL DEFAULT 33554432
) WITH (fillfactor = 20);
INSERT INTO sequencer (cluster, since, upto) SELECT system_identifier, '0', '0' FROM pg_control_system();

-- Partitions of the entries, in the order of arrival. There is always an empty one behind the one that is written.
CREATE TABLE event_partition (
    number int PRIMARY KEY,
    first  bigint NOT NULL,        -- the first arrival that it holds
    past   bigint NOT NULL         -- the first that it does not
);

-- Adds one. It is attached when it is complete, which keeps nobody who appends waiting.
CREATE FUNCTION add_event_partition() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    next   event_partition;
    name   text;
BEGIN
    SELECT coalesce(max(number), 0) + 1, coalesce(max(past), 0) INTO next.number, next.first FROM event_partition;
    next.past := next.first + (SELECT entries_a_partition FROM sequencer);
    name := 'event_' || next.number;
    EXECUTE format('CREATE TABLE %I (LIKE event INCLUDING DEFAULTS INCLUDING STORAGE)', name);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT bounds CHECK (id >= %s AND id < %s)', name, next.first, next.past);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (action_id, version)', name || '_of_action', name);
    EXECUTE format('CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON %I'
                   ' FOR EACH STATEMENT EXECUTE FUNCTION event_is_for_good()', name);
    EXECUTE format('ALTER TABLE event ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, next.first, next.past);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT bounds', name);
    INSERT INTO event_partition SELECT next.*;
END $$;
SELECT add_event_partition();
SELECT add_event_partition();

-- Gives places to up to `most` entries, in the order of arrival, and says how many got one; 0 where somebody else does.
--
-- An entry is taken once every transaction that began before its own has ended: what arrives later then stands later,
-- and no entry that was passed by can still appear. An action's next entry arrives after the one before it was
-- committed, so its entries stand in their order. Each statement here sees what was committed before it began, and the
-- lock is held until the places are visible to the next who takes it.
-- A backlog is walked by arrival, from where the last call stopped: to sort all of it each time would take the square.
CREATE FUNCTION take_places(lock_class int, most bigint) RETURNS bigint LANGUAGE plpgsql SET enable_sort = off AS $$
DECLARE
    held    sequencer;
    last    bigint;
    taken   bigint;
    top     bigint;
    horizon xid8;
BEGIN
    IF most <= 0 OR NOT pg_try_advisory_xact_lock(lock_class, -2) THEN
        RETURN 0;
    END IF;
    SELECT * INTO held FROM sequencer;
    IF held.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RETURN take_places_moved(most);
    END IF;
    IF held.after IS NULL THEN
        horizon := pg_snapshot_xmin(pg_current_snapshot());
        IF horizon <= held.since THEN
            RETURN 0;
        END IF;
        -- `+ 0` keeps the search in the index over transactions, away from that over all arrivals.
        SELECT min(id + 0) - 1 INTO held.after FROM event WHERE xid >= held.since AND xid < horizon;
        IF held.after IS NULL THEN
            RETURN 0;
        END IF;
        held.upto := horizon;
    END IF;
    SELECT max(seq) INTO last FROM place;
    WITH next AS MATERIALIZED (
        SELECT id FROM event
        WHERE id > held.after AND xid >= held.since AND xid < held.upto
          AND NOT EXISTS (SELECT FROM place WHERE place.event = event.id)
        ORDER BY id LIMIT most
    ), put AS (
        INSERT INTO place (seq, event)
        SELECT coalesce(last, 0) + row_number() OVER (ORDER BY id), id FROM next RETURNING event
    )
    SELECT count(*), max(event) INTO taken, top FROM put;
    IF taken < most THEN
        UPDATE sequencer SET since = held.upto, upto = held.upto, after = NULL;
    ELSE
        UPDATE sequencer SET upto = held.upto, after = top;
    END IF;
    IF top >= (SELECT max(first) FROM event_partition) THEN
        PERFORM add_event_partition();
    END IF;
    RETURN taken;
END $$;

-- The same where the ledger was brought to another server: the numbers of transactions that stand in it are of the one
-- before. What is visible has been committed, so all of it that has no place gets one; then it goes on as above.
CREATE FUNCTION take_places_moved(most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last    bigint;
    taken   bigint;
    horizon xid8 := pg_snapshot_xmin(pg_current_snapshot());
BEGIN
    SELECT max(seq) INTO last FROM place;
    INSERT INTO place (seq, event)
    SELECT coalesce(last, 0) + row_number() OVER (ORDER BY id), id FROM (
        SELECT id FROM event WHERE NOT EXISTS (SELECT FROM place WHERE place.event = event.id) ORDER BY id LIMIT most
    ) AS next;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < most THEN
        UPDATE sequencer SET since = horizon, upto = horizon, after = NULL,
                           cluster = (SELECT system_identifier FROM pg_control_system());
    END IF;
    RETURN taken;
END $$;

-- The Merkle log as far as it is sealed: tiles of up to 256 hashes (the last of each level grows), the signed heads, and
-- which of them each anchor took.
CREATE TABLE tile (
    level  bigint NOT NULL,
    place  bigint NOT NULL,
    hashes bytea  NOT NULL,
    PRIMARY KEY (level, place)
) WITH (fillfactor = 80);

CREATE TABLE checkpoint (
    size  bigint PRIMARY KEY,      -- how many entries it covers
    at_us bigint NOT NULL,
    note  bytea  NOT NULL          -- the signed note, as it is published
);

CREATE TABLE anchor (
    name  text   COLLATE "C" PRIMARY KEY,
    size  bigint NOT NULL,         -- of the last checkpoint that it took; 0: none yet
    at_us bigint NOT NULL,
    said  text   NOT NULL          -- why it did not take the last one; '' where it did
);

-- How far each subscriber has been told what the ledger says. The ledger itself is the outbox.
CREATE TABLE subscriber (
    name      text   COLLATE "C" PRIMARY KEY,
    after_seq bigint NOT NULL,     -- entries up to here are done: each message taken, or a dead letter
    done      bigint NOT NULL,     -- so many messages of the next entry are done too
    tried     bigint NOT NULL,     -- how often the next one has been refused
    since_us  bigint NOT NULL,     -- when it was first refused; 0 where it was not
    next_us   bigint NOT NULL,     -- not before this moment
    said      text   NOT NULL,     -- what the last refusal said
    owner     text   NOT NULL,     -- who delivers now
    until_us  bigint NOT NULL,     -- until when, by the clock of who took it
    ends_us   bigint NOT NULL      -- the same by the clock of this database, which alone says whether it is live
) WITH (fillfactor = 50);

CREATE TABLE dead_letter (
    subscriber text   COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,    -- the entry that was to be told
    number     bigint NOT NULL,    -- which of its messages, from 0
    died_us    bigint NOT NULL,
    tried      bigint NOT NULL,
    said       text   NOT NULL,
    again      boolean NOT NULL,   -- somebody asked that it be delivered once more
    PRIMARY KEY (seq, number, subscriber)
);

-- Large evidence stands elsewhere: `body` is empty then, and `object` says where its `outside` bytes are. Erased, the
-- body is NULL as always, and the object is named until it is removed.
ALTER TABLE evidence ADD COLUMN object text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN outside bigint NOT NULL DEFAULT 0;
CREATE INDEX evidence_to_remove ON evidence (tenant, digest) WHERE body IS NULL AND object <> '';
