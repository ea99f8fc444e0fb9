-- A role that was admitted to one tenant sees that tenant's rows and no others, whatever it asks and however. Who owns
-- the tables, and whoever is a member of that role, sees everything: the processes that keep the ledger.
CREATE TABLE admitted (
    role   name NOT NULL PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL
);

-- The tenant that a role was admitted to; NULL for a role that the session may not take on.
CREATE FUNCTION tenant_of(role name) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS
$$ SELECT a.tenant FROM admitted AS a WHERE a.role = tenant_of.role AND pg_has_role(session_user, a.role, 'member') $$;
-- A session's own temporary tables come last, so that none of them passes for `admitted`.
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION tenant_of(name) SET search_path = %I, pg_temp', current_schema());
END $$;

ALTER TABLE event ENABLE ROW LEVEL SECURITY;
ALTER TABLE action ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE evidence ENABLE ROW LEVEL SECURITY;
ALTER TABLE counter ENABLE ROW LEVEL SECURITY;
ALTER TABLE frozen ENABLE ROW LEVEL SECURITY;
ALTER TABLE incident ENABLE ROW LEVEL SECURITY;
ALTER TABLE reliance ENABLE ROW LEVEL SECURITY;
ALTER TABLE admitted ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON event USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON action USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON idempotency USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON evidence USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON counter USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON frozen USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON incident USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON reliance USING (tenant = (SELECT tenant_of(current_user)));
CREATE POLICY own ON admitted USING (role = current_user);

-- Of the log a tenant sees where its own entries stand.
ALTER TABLE place ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON place USING (EXISTS (SELECT FROM event WHERE event.id = place.event));
ALTER TABLE sequencer ENABLE ROW LEVEL SECURITY;
ALTER TABLE tile ENABLE ROW LEVEL SECURITY;
ALTER TABLE checkpoint ENABLE ROW LEVEL SECURITY;
ALTER TABLE anchor ENABLE ROW LEVEL SECURITY;
ALTER TABLE subscriber ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter ENABLE ROW LEVEL SECURITY;

-- Lets a role look at one tenant: `SELECT readback.admit('acme_auditor', 'acme')`. Only who owns the tables can.
CREATE FUNCTION admit(role name, tenant text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_has_role(role, (SELECT relowner FROM pg_class WHERE oid = 'event'::regclass), 'member') THEN
        RAISE EXCEPTION 'the role % sees every tenant: it is, or is a member of, who owns the ledger', role;
    END IF;
    INSERT INTO admitted VALUES (role, tenant)
        ON CONFLICT ON CONSTRAINT admitted_pkey DO UPDATE SET tenant = excluded.tenant;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
    EXECUTE format('GRANT SELECT ON event, action, idempotency, evidence, counter, frozen, incident, reliance, place,'
                   ' migration TO %I', role);
END $$;
REVOKE ALL ON FUNCTION admit(name, text) FROM PUBLIC;

-- Takes it back.
CREATE FUNCTION dismiss(role name) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM admitted WHERE admitted.role = dismiss.role;
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', current_schema(), role);
    EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', current_schema(), role);
END $$;
REVOKE ALL ON FUNCTION dismiss(name) FROM PUBLIC;
