-- What has succeeded and is only looked at again stands apart from what is on its way to a verdict: it is not in flight,
-- and a backlog of it keeps nobody waiting.
DROP INDEX action_ready;
CREATE INDEX action_ready ON action (tenant, ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state <> 'reconciled_success';
CREATE INDEX action_watched ON action (tenant, ready_us, action_id)
    WHERE ready_us IS NOT NULL AND state = 'reconciled_success';
