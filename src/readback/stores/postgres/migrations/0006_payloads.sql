-- Evidence stands by the action that keeps it. Ids of actions grow with time, so that new rows land at the end of the
-- index; a digest is random, and each of them had a page of the index to itself. Only the text of a contract is one for
-- many actions, and is still found by its digest. Large evidence stands elsewhere, as before: `object` and `outside`.
CREATE TABLE payload (
    action_id text   COLLATE "C" NOT NULL,
    tenant    text   COLLATE "C" NOT NULL,
    digest    bytea  NOT NULL,
    media     text   COLLATE "C" NOT NULL,
    body      bytea,                           -- NULL once erased; the digest stays
    object    text   COLLATE "C" NOT NULL DEFAULT '',
    outside   bigint NOT NULL DEFAULT 0
);
CREATE TABLE contract_text (
    tenant  text   COLLATE "C" NOT NULL,
    digest  bytea  NOT NULL,
    media   text   COLLATE "C" NOT NULL,
    body    bytea  NOT NULL,
    object  text   COLLATE "C" NOT NULL DEFAULT '',
    outside bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (digest, tenant)
);

-- How many bytes of evidence are kept for a tenant, kept up with each change of them: the sum over the slots. A session
-- has its slot, so that those who append for one tenant do not wait for each other.
CREATE TABLE weight (
    tenant text   COLLATE "C" NOT NULL,
    slot   bigint NOT NULL,
    bytes  bigint NOT NULL,
    PRIMARY KEY (tenant, slot)
) WITH (fillfactor = 50);

-- What an entry says under a path; NULL for one that is no JSON any more, which the audit names. What stands for a NUL
-- is another character here: PostgreSQL has none.
CREATE FUNCTION said(envelope bytea, VARIADIC path text[]) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN replace(convert_from(envelope, 'UTF8'), '\u0000', '\u0020')::json #> path;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
CREATE FUNCTION raw(digest text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN digest ~ '^[0-9a-f]{64}$' THEN decode(digest, 'hex') END $$;

INSERT INTO contract_text
SELECT e.tenant, e.digest, e.media, e.body, e.object, e.outside FROM evidence AS e
  JOIN (SELECT DISTINCT tenant, raw(contract_hash) AS digest FROM action WHERE kind <> 'saga') AS named
    ON named.digest = e.digest AND named.tenant = e.tenant
 WHERE e.body IS NOT NULL;

-- Each action gets what its entries refer to.
INSERT INTO payload
SELECT named.action_id, e.tenant, e.digest, e.media, e.body, e.object, e.outside
  FROM (SELECT action_id, tenant, raw(ref.value) AS digest, min(id) AS first
          FROM event, json_each_text(CASE json_typeof(said(envelope, 'refs')) WHEN 'object' THEN said(envelope, 'refs') END) AS ref
         WHERE ref.key <> 'contract'
         GROUP BY 1, 2, 3) AS named
  JOIN evidence AS e ON e.digest = named.digest AND e.tenant = named.tenant
 ORDER BY named.first;
ALTER TABLE payload ADD PRIMARY KEY (action_id, digest);

-- What an action has let go of was kept for another action's sake at most, which has its own by now.
UPDATE payload AS p SET media = '', body = NULL
  FROM (SELECT action_id, raw(named.digest) AS digest, max(version) AS version
          FROM event, json_array_elements_text(
               CASE json_typeof(said(envelope, 'data', 'digests')) WHEN 'array' THEN said(envelope, 'data', 'digests') END
               ) AS named(digest)
         WHERE kind = 'erased'
         GROUP BY 1, 2) AS gone
 WHERE p.action_id = gone.action_id AND p.digest = gone.digest AND NOT EXISTS (
       SELECT FROM event AS later, json_each_text(
              CASE json_typeof(said(later.envelope, 'refs')) WHEN 'object' THEN said(later.envelope, 'refs') END) AS ref
        WHERE later.action_id = gone.action_id AND later.version > gone.version AND raw(ref.value) = gone.digest);

INSERT INTO weight
SELECT tenant, 0, sum(length(body) + outside)::bigint
  FROM (SELECT tenant, body, outside FROM payload UNION ALL SELECT tenant, body, outside FROM contract_text) AS held
 WHERE body IS NOT NULL
 GROUP BY tenant;

DROP FUNCTION said(bytea, VARIADIC text[]), raw(text);
DROP TABLE evidence;
-- An object is removed when its last row is erased.
CREATE INDEX payload_erased ON payload (tenant, object) WHERE body IS NULL;
CREATE INDEX payload_outside ON payload (object) WHERE body IS NOT NULL AND object <> '';

ALTER TABLE payload ENABLE ROW LEVEL SECURITY;
ALTER TABLE contract_text ENABLE ROW LEVEL SECURITY;
ALTER TABLE weight ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON payload USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON contract_text USING (tenant = (SELECT tenant_of(current_user)));

-- `SELECT readback.admit('acme_auditor', 'acme')`. `may_lock`: admits the role although it can stop the ledger by a lock.
CREATE OR REPLACE FUNCTION admit(role name, tenant text, may_lock boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_has_role(role, (SELECT relowner FROM pg_class WHERE oid = 'event'::regclass), 'member') THEN
        RAISE EXCEPTION 'the role % sees every tenant: it is, or is a member of, who owns the ledger', role;
    END IF;
    INSERT INTO admitted VALUES (role, tenant)
        ON CONFLICT ON CONSTRAINT admitted_pkey DO UPDATE SET tenant = excluded.tenant;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
    EXECUTE format('GRANT SELECT ON event, action, idempotency, payload, contract_text, counter, frozen, incident,'
                   ' reliance, place, migration TO %I', role);
    PERFORM withhold_locks();
    IF NOT may_lock AND EXISTS (
        SELECT FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
           AND proname ~ '^pg_(try_)?advisory_(xact_)?lock' AND has_function_privilege(role, oid, 'execute')) THEN
        RAISE EXCEPTION 'the role % could stop the ledger: it may take advisory locks', role
            USING HINT = 'Call admit as a superuser, or take EXECUTE on pg_advisory_lock and its kin from the role''s'
                         ' groups; or accept it: admit(role, tenant, may_lock => true).';
    END IF;
END $$;

DO $$
DECLARE
    one name;
BEGIN
    FOR one IN SELECT role FROM admitted JOIN pg_roles ON rolname = role LOOP
        EXECUTE format('GRANT SELECT ON payload, contract_text TO %I', one);
    END LOOP;
END $$;
