-- A saga is found by the version of all contracts behind its steps, so that a worker goes past all sagas of contracts
-- that are not loaded in one step, however many of them are due. Sagas of earlier releases stay one version, "".
DROP INDEX action_ready;
DROP INDEX action_watched;
DROP INDEX action_soonest;
DROP INDEX action_watched_soonest;
CREATE INDEX action_ready ON action (
    tenant, kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN contract_version ELSE contract_hash END), ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched ON action (
    tenant, kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN contract_version ELSE contract_hash END), ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
CREATE INDEX action_soonest ON action (
    kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN contract_version ELSE contract_hash END), ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched_soonest ON action (
    kind, (CASE kind WHEN 'saga' THEN '' ELSE contract END),
    (CASE kind WHEN 'saga' THEN contract_version ELSE contract_hash END), ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
