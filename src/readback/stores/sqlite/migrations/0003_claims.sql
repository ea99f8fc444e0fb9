-- How the claims of an action stand, and which actions were planned upon which claim.
ALTER TABLE action ADD COLUMN claim TEXT NOT NULL DEFAULT '';   -- contested, retracted or reinstated; '' where nothing was said against it
CREATE INDEX action_claim ON action (tenant, action_id) WHERE claim <> '';

CREATE TABLE reliance (
    tenant    TEXT NOT NULL,
    claim     TEXT NOT NULL,
    action_id TEXT NOT NULL,      -- the one that was planned upon the claim
    PRIMARY KEY (tenant, claim, action_id)
) STRICT, WITHOUT ROWID;
