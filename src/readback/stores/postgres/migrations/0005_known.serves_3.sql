-- What is due is found by its contract and version, so that a worker goes past all that it does not know in one step for
-- each version that waits, however many actions of it are due. All sagas stand together: each has a definition of its own.
DROP INDEX action_ready;
DROP INDEX action_watched;
DROP INDEX action_soonest;
DROP INDEX action_watched_soonest;
CREATE INDEX action_ready ON action (
    tenant, kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN '' ELSE contract_hash END), ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched ON action (
    tenant, kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN '' ELSE contract_hash END), ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
CREATE INDEX action_soonest ON action (
    kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN '' ELSE contract_hash END), ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched_soonest ON action (
    kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN '' ELSE contract_hash END), ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
