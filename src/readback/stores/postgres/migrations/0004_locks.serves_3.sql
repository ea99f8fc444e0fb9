-- A role that may only look takes no lock that the ledger works under. PostgreSQL lets everybody take advisory locks, and
-- has no way to deny one role what everybody may do: so everybody's right becomes that of each login that is there, but
-- for the admitted ones. Only a superuser can change it; for other callers nothing happens here, and `admit` refuses.
CREATE FUNCTION withhold_locks() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    lock regprocedure;
    other name;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('readback admits'), -4);
    FOR lock IN SELECT oid::regprocedure FROM pg_proc
                 WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_(try_)?advisory_(xact_)?lock'
                   AND pg_has_role(current_user, proowner, 'usage') LOOP
        IF has_function_privilege('public', lock::oid, 'execute') THEN
            FOR other IN SELECT rolname FROM pg_roles
                          WHERE NOT rolsuper AND rolcanlogin AND rolname NOT IN (SELECT role FROM admitted) LOOP
                EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', lock, other);
            END LOOP;
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', lock);
        END IF;
        FOR other IN SELECT rolname FROM pg_roles JOIN admitted ON role = rolname LOOP
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %I', lock, other);
        END LOOP;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION withhold_locks() FROM PUBLIC;

DROP FUNCTION admit(name, text);
-- `SELECT readback.admit('acme_auditor', 'acme')`. `may_lock`: admits the role although it can stop the ledger by a lock.
CREATE FUNCTION admit(role name, tenant text, may_lock boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_has_role(role, (SELECT relowner FROM pg_class WHERE oid = 'event'::regclass), 'member') THEN
        RAISE EXCEPTION 'the role % sees every tenant: it is, or is a member of, who owns the ledger', role;
    END IF;
    INSERT INTO admitted VALUES (role, tenant)
        ON CONFLICT ON CONSTRAINT admitted_pkey DO UPDATE SET tenant = excluded.tenant;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
    EXECUTE format('GRANT SELECT ON event, action, idempotency, evidence, counter, frozen, incident, reliance, place,'
                   ' migration TO %I', role);
    PERFORM withhold_locks();
    IF NOT may_lock AND EXISTS (
        SELECT FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
           AND proname ~ '^pg_(try_)?advisory_(xact_)?lock' AND has_function_privilege(role, oid, 'execute')) THEN
        RAISE EXCEPTION 'the role % could stop the ledger: it may take advisory locks', role
            USING HINT = 'Call admit as a superuser, or take EXECUTE on pg_advisory_lock and its kin from the role''s'
                         ' groups; or accept it: admit(role, tenant, may_lock => true).';
    END IF;
END $$;
REVOKE ALL ON FUNCTION admit(name, text, boolean) FROM PUBLIC;

DO $$ BEGIN
    IF EXISTS (SELECT FROM admitted) THEN
        PERFORM withhold_locks();
    END IF;
END $$;
