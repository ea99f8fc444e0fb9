-- Evidence stands by the action that keeps it. Ids of actions grow with time, so that new rows land at the end of the
-- index; a digest is random, and each of them had a page of the index to itself. Only the text of a contract is one for
-- many actions, and is still found by its digest.
CREATE TABLE payload (
    id        INTEGER PRIMARY KEY,
    action_id TEXT NOT NULL,
    tenant    TEXT NOT NULL,
    digest    BLOB NOT NULL,
    media     TEXT NOT NULL,
    body      BLOB               -- NULL once erased; the digest stays
) STRICT;

CREATE TABLE contract_text (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    media  TEXT NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
) STRICT;

-- How many bytes of evidence are kept for a tenant, kept up with each change of them.
CREATE TABLE weight (
    tenant TEXT    PRIMARY KEY,
    bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO contract_text
SELECT tenant, digest, media, body FROM evidence
 WHERE body IS NOT NULL
   AND (digest, tenant) IN (SELECT unhex(contract_hash), tenant FROM action WHERE kind <> 'saga');

-- Each action gets what its entries refer to. An entry that is no JSON any more refers to nothing; the audit names it.
CREATE UNIQUE INDEX payload_of_action ON payload (action_id, digest);
INSERT OR IGNORE INTO payload (action_id, tenant, digest, media, body)
SELECT event.action_id, action.tenant, evidence.digest, evidence.media, evidence.body
  FROM event CROSS JOIN action ON action.action_id = event.action_id
 CROSS JOIN json_each(iif(json_valid(CAST(event.envelope AS TEXT)), CAST(event.envelope AS TEXT), '{}'), '$.refs') AS ref
 CROSS JOIN evidence ON evidence.digest = unhex(ref.value) AND evidence.tenant = action.tenant
 WHERE ref.key <> 'contract'
 ORDER BY event.seq;

-- What an action has let go of was kept for another action's sake at most, which has its own by now.
WITH gone AS MATERIALIZED (
    SELECT event.action_id AS action_id, unhex(named.value) AS digest, max(event.version) AS version
      FROM event CROSS JOIN json_each(
           iif(json_valid(CAST(event.envelope AS TEXT)), CAST(event.envelope AS TEXT), '{}'), '$.data.digests') AS named
     WHERE event.kind = 'erased'
     GROUP BY 1, 2
)
UPDATE payload SET media = '', body = NULL FROM gone
 WHERE payload.action_id = gone.action_id AND payload.digest = gone.digest AND NOT EXISTS (
       SELECT 1 FROM event AS later CROSS JOIN json_each(
              iif(json_valid(CAST(later.envelope AS TEXT)), CAST(later.envelope AS TEXT), '{}'), '$.refs') AS ref
        WHERE later.action_id = gone.action_id AND later.version > gone.version AND unhex(ref.value) = gone.digest);

INSERT INTO weight
SELECT tenant, coalesce(sum(bytes), 0) FROM (
    SELECT tenant, length(body) AS bytes FROM payload UNION ALL SELECT tenant, length(body) FROM contract_text
) GROUP BY tenant;

DROP TABLE evidence;
