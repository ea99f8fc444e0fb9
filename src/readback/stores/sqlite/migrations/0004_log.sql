-- The Merkle log as far as it is sealed: tiles of up to 256 hashes (the last of each level grows), the signed heads, and
-- which of them each anchor took.
CREATE TABLE tile (
    level  INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    hashes BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX tile_at ON tile (level, place);

CREATE TABLE checkpoint (
    size  INTEGER PRIMARY KEY,    -- how many entries it covers
    at_us INTEGER NOT NULL,
    note  BLOB    NOT NULL        -- the signed note, as it is published
) STRICT;

CREATE TABLE anchor (
    name  TEXT    PRIMARY KEY,
    size  INTEGER NOT NULL,       -- of the last checkpoint that it took; 0: none yet
    at_us INTEGER NOT NULL,
    said  TEXT    NOT NULL        -- why it did not take the last one; '' where it did
) STRICT, WITHOUT ROWID;
