-- jura-ng's own table, kept true so that a site can go back to it, and read when arcacct takes over from it.
-- Nothing may refer to it: jura's INSERT OR REPLACE deletes the row.
CREATE TABLE AccountingTargets (
  TargetID    TEXT UNIQUE NOT NULL,  -- the block of the configuration, e.g. arex/jura/sgas:NAME
  LastEndTime INTEGER NOT NULL,
  LastReport  INTEGER NOT NULL
);

CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
