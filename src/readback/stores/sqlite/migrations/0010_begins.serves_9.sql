-- Actions by the moment of their first entry: what is asked for from a moment on is read from there on. An entry never
-- changes, so that a row goes in once, at the end of the index.
CREATE INDEX event_begins ON event (at_us, action_id) WHERE version = 1;
