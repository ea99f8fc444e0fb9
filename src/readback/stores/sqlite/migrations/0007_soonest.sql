-- Who is due of all tenants is found by time, whatever number of tenants has something that waits. The indexes by tenant
-- stay: they answer for one tenant, past any backlog of others.
CREATE INDEX action_soonest ON action (ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched_soonest ON action (ready_us, tenant, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
