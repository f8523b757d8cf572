BEGIN TRANSACTION;
CREATE TABLE AccountingTargets (
  TargetID    TEXT UNIQUE NOT NULL,  -- the block of the configuration, e.g. arex/jura/sgas:NAME
  LastEndTime INTEGER NOT NULL,
  LastReport  INTEGER NOT NULL
);
INSERT INTO "AccountingTargets" VALUES('arex/jura/sgas:s',1721044800,1795337815);
INSERT INTO "AccountingTargets" VALUES('arex/jura/apel:a',1721044800,1795337815);
INSERT INTO "AccountingTargets" VALUES('arex/jura/apel:sums',1721044800,1795337815);
CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
INSERT INTO "DBConfig" VALUES('ARCACCT_INCARNATION','f3b4056e58cbcb83c5867bb7301daad3');
INSERT INTO "DBConfig" VALUES('ARCACCT_CREATED','1795337814');
INSERT INTO "DBConfig" VALUES('ARCACCT_SCHEMA','4');
INSERT INTO "DBConfig" VALUES('FENCES_PASSED','2');
CREATE TABLE HeldRecords (
  Target   TEXT NOT NULL,
  JobID    TEXT NOT NULL,
  RecordID INTEGER NOT NULL,
  Seq      INTEGER NOT NULL,
  EndTime  INTEGER NOT NULL,
  State    TEXT NOT NULL CHECK (State IN ('held', 'quarantined', 'correction', 'retry', 'dropped')),
  Reason   TEXT NOT NULL,           -- ours, or the receiver's words
  Attempts INTEGER NOT NULL DEFAULT 0,
  Since    INTEGER NOT NULL,
  PRIMARY KEY (Target, JobID)
) WITHOUT ROWID;
INSERT INTO "HeldRecords" VALUES('arex/jura/sgas:s','job00000',1,8,1718452800,'correction','the receiver has an older version of this record and keeps the first one it got: ask its administrator to delete record ur-ce.example.org-job00000, then run `arcacct quarantine retry`',0,1795337815);
CREATE TABLE MessageRecords (
  MessageID INTEGER NOT NULL,
  Position  INTEGER NOT NULL,       -- in the message, from 0: a refused message is split between records
  JobID     TEXT NOT NULL,
  RecordID  INTEGER NOT NULL,
  Seq       INTEGER NOT NULL,       -- 0: republished
  EndTime   INTEGER NOT NULL,
  Digest    BLOB NOT NULL,          -- of the record's values as they were sent; empty: sent with zeros, see Keys
  Key       TEXT NOT NULL,          -- what the receiver knows the record by
  Notes     TEXT,                   -- what was repaired before it was sent
  PRIMARY KEY (MessageID, Position)
) WITHOUT ROWID;
INSERT INTO "MessageRecords" VALUES(1,0,'job00000',1,1,1718452800,X'1176574F243C63CBAEE031F08D14B84A','ur-ce.example.org-job00000',NULL);
INSERT INTO "MessageRecords" VALUES(1,1,'job00001',2,2,1718452801,X'22E367951DE0A0B9008CD88198FCE70D','ur-ce.example.org-job00001',NULL);
INSERT INTO "MessageRecords" VALUES(1,2,'job00002',3,3,1718452802,X'79D6F857E7CC611797EBC2604903CC0F','ur-ce.example.org-job00002',NULL);
INSERT INTO "MessageRecords" VALUES(1,3,'job00003',4,4,1718452803,X'A4F6EAEA8BE5D9D3F30551EF73D5982A','ur-ce.example.org-job00003',NULL);
INSERT INTO "MessageRecords" VALUES(1,4,'job00004',5,5,1718452804,X'91A7131C6322C71C5AC2BF5A97D4B2A9','ur-ce.example.org-job00004',NULL);
INSERT INTO "MessageRecords" VALUES(1,5,'gone',6,6,1718452809,X'A33C292C96B4D3BE7007583A5E385263','ur-ce.example.org-gone',NULL);
INSERT INTO "MessageRecords" VALUES(1,6,'july',7,7,1721044800,X'E7334B3DD9C8DF354CD3FD66982EB6C2','ur-ce.example.org-july',NULL);
INSERT INTO "MessageRecords" VALUES(2,0,'job00000',1,1,1718452800,X'1176574F243C63CBAEE031F08D14B84A','["site", "4job00000", 1718452800]',NULL);
INSERT INTO "MessageRecords" VALUES(2,1,'job00001',2,2,1718452801,X'22E367951DE0A0B9008CD88198FCE70D','["site", "4job00001", 1718452801]',NULL);
INSERT INTO "MessageRecords" VALUES(2,2,'job00002',3,3,1718452802,X'79D6F857E7CC611797EBC2604903CC0F','["site", "4job00002", 1718452802]',NULL);
INSERT INTO "MessageRecords" VALUES(2,3,'job00003',4,4,1718452803,X'A4F6EAEA8BE5D9D3F30551EF73D5982A','["site", "4job00003", 1718452803]',NULL);
INSERT INTO "MessageRecords" VALUES(2,4,'job00004',5,5,1718452804,X'91A7131C6322C71C5AC2BF5A97D4B2A9','["site", "4job00004", 1718452804]',NULL);
INSERT INTO "MessageRecords" VALUES(2,5,'gone',6,6,1718452809,X'A33C292C96B4D3BE7007583A5E385263','["site", "4gone", 1718452809]',NULL);
INSERT INTO "MessageRecords" VALUES(2,6,'july',7,7,1721044800,X'E7334B3DD9C8DF354CD3FD66982EB6C2','["site", "4july", 1721044800]',NULL);
INSERT INTO "MessageRecords" VALUES(6,0,'job00000',1,8,1718452800,X'31C508A10EE5D7C4626C81EB4E9A9F47','["site", "4job00000", 1718452800]',NULL);
CREATE TABLE Messages (
  MessageID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Target      TEXT NOT NULL,
  Kind        TEXT NOT NULL,        -- ur, car, summaries, sync, ...
  Origin      TEXT NOT NULL,        -- publish or republish
  State       TEXT NOT NULL CHECK (State IN ('sending', 'accepted', 'refused', 'split')),
  Seq         INTEGER,              -- the cursor once the message is done; NULL: it does not move the cursor
  Created     INTEGER NOT NULL,
  Answered    INTEGER,
  Attempts    INTEGER NOT NULL DEFAULT 0,
  RecordCount INTEGER NOT NULL,
  ByteCount   INTEGER NOT NULL,     -- of what goes over the wire, before base64
  Digest      TEXT NOT NULL,        -- SHA-256 of the unsigned body, hexadecimal
  Destination TEXT NOT NULL,        -- URL or directory
  EmpaID      TEXT,                 -- AMS: attribute of the message
  AnswerCode  INTEGER,              -- HTTP status
  Answer      TEXT,                 -- the receiver's words
  ReceiverID  TEXT,                 -- AMS message id, name of the file
  Bytes       BLOB                  -- zlib of exactly what is sent; dropped after keep_messages days
);
INSERT INTO "Messages" VALUES(1,'arex/jura/sgas:s','ur','publish','accepted',7,1795337814,1795337814,1,7,8855,'b7e20561bacf860de5a012f96e8ec8b19854e0a52852a86c9e12b1bfba051258','https://localhost:38639/sgas/ur',NULL,200,'',NULL,NULL);
INSERT INTO "Messages" VALUES(2,'arex/jura/apel:a','car','publish','accepted',7,1795337814,1795337814,1,7,12686,'290dcdaa11167edbc40ad24799f8d05718c0852246bd165ab8ca7fc77dbaaca4','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/664095d03e4d98',200,'','0',NULL);
INSERT INTO "Messages" VALUES(3,'arex/jura/apel:a','sync','publish','accepted',NULL,1795337814,1795337814,1,2,2760,'37b8c2082f224a10e7b46706485b99f424ebb9aa85b07d3c87a834abdeabe77c','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/330742998e44de',200,'','1',NULL);
INSERT INTO "Messages" VALUES(4,'arex/jura/apel:sums','summaries','publish','accepted',7,1795337815,1795337815,1,2,3362,'a2ef3b80481adeebde78101d24f7ee28ce204f8b43fa086d72aa9307e11c541c','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/e7d030cf9e6574',200,'','2',NULL);
INSERT INTO "Messages" VALUES(5,'arex/jura/apel:sums','sync','publish','accepted',NULL,1795337815,1795337815,1,2,2760,'df705cde9c04bc5b37c00e4004c89c3fcd0802a79d15c968723e0d196613a1f1','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/2bac058e312064',200,'','3',NULL);
INSERT INTO "Messages" VALUES(6,'arex/jura/apel:a','car','publish','accepted',8,1795337815,1795337815,1,1,4154,'7bf000f56ec50e6ca0478fb5e2064d0f00c01701f05389027ec478c379aa1210','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/f2fd38377f34d8',200,'','4',NULL);
INSERT INTO "Messages" VALUES(7,'arex/jura/apel:a','sync','publish','accepted',NULL,1795337815,1795337815,1,2,2760,'37b8c2082f224a10e7b46706485b99f424ebb9aa85b07d3c87a834abdeabe77c','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/e911d3a8947ff0',200,'','5',NULL);
INSERT INTO "Messages" VALUES(8,'arex/jura/apel:sums','summaries','publish','accepted',8,1795337815,1795337815,1,1,2965,'be1abb3f4e64ead4ef1b59c0380023420753067fc45128d9b19e21f2d29211d7','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/df1a17d621a791',200,'','6',NULL);
INSERT INTO "Messages" VALUES(9,'arex/jura/apel:sums','sync','publish','accepted',NULL,1795337815,1795337815,1,2,2760,'df705cde9c04bc5b37c00e4004c89c3fcd0802a79d15c968723e0d196613a1f1','https://localhost:33181/v1/projects/accounting/topics/gLite-APEL:publish','20261122/89431296253f21',200,'','7',NULL);
CREATE TABLE OpenMonths (
  Target TEXT NOT NULL,
  Year   INTEGER NOT NULL,
  Month  INTEGER NOT NULL,
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
CREATE TABLE SumKeys (
  Target    TEXT NOT NULL,
  Kind      TEXT NOT NULL,          -- summaries, summaries-v04, ..., sync
  Key       TEXT NOT NULL,          -- as the receiver compares it, JSON
  Year      INTEGER NOT NULL,
  Month     INTEGER NOT NULL,
  Jobs      INTEGER NOT NULL,       -- as last sent; 0: neutralised
  MessageID INTEGER NOT NULL,
  PRIMARY KEY (Target, Key)         -- a key of two families is one key: the later message overwrites
) WITHOUT ROWID;
INSERT INTO "SumKeys" VALUES('arex/jura/apel:a','sync','["site", "https://ce.example.org:443/arex", 2024, 6]',2024,6,6,7);
INSERT INTO "SumKeys" VALUES('arex/jura/apel:a','sync','["site", "https://ce.example.org:443/arex", 2024, 7]',2024,7,1,7);
INSERT INTO "SumKeys" VALUES('arex/jura/apel:sums','summaries','["Summaries", "sums", 2024, 6, "/dc=org/dc=example/cn=ada lovelace", "atlas", "/atlas", "role=production", "https://ce.example.org:443/arex", "grid", "hepspec", "10", 1, 1]',2024,6,6,8);
INSERT INTO "SumKeys" VALUES('arex/jura/apel:sums','summaries','["Summaries", "sums", 2024, 7, "/dc=org/dc=example/cn=ada lovelace", "atlas", "/atlas", "role=production", "https://ce.example.org:443/arex", "grid", "hepspec", "10", 1, 1]',2024,7,1,4);
INSERT INTO "SumKeys" VALUES('arex/jura/apel:sums','sync','["sums", "https://ce.example.org:443/arex", 2024, 6]',2024,6,6,9);
INSERT INTO "SumKeys" VALUES('arex/jura/apel:sums','sync','["sums", "https://ce.example.org:443/arex", 2024, 7]',2024,7,1,9);
CREATE TABLE Targets (
  Target         TEXT PRIMARY KEY,  -- the block of the configuration, e.g. arex/jura/sgas:NAME
  Incarnation    TEXT NOT NULL,     -- of the accounting database that LastSeq belongs to
  LastSeq        INTEGER NOT NULL,  -- every record up to here is handled: sent, held or not this target's business
  StartEndTime   INTEGER NOT NULL,  -- records that ended earlier are not this target's business
  LastRun        INTEGER,           -- times of the last run and of the last one without error
  LastSuccess    INTEGER,
  LastError      TEXT
);
INSERT INTO "Targets" VALUES('arex/jura/sgas:s','1fe01066db66e9ddc3e5860539905202',8,1,1795337815,1795337815,NULL);
INSERT INTO "Targets" VALUES('arex/jura/apel:a','1fe01066db66e9ddc3e5860539905202',8,1,1795337815,1795337815,NULL);
INSERT INTO "Targets" VALUES('arex/jura/apel:sums','1fe01066db66e9ddc3e5860539905202',8,1,1795337815,1795337815,NULL);
CREATE INDEX Messages_sending_IDX ON Messages (Target) WHERE State = 'sending';
CREATE INDEX Messages_Target_IDX ON Messages (Target, Kind, MessageID);
CREATE INDEX MessageRecords_JobID_IDX ON MessageRecords (JobID);
CREATE INDEX SumKeys_Month_IDX ON SumKeys (Target, Year, Month);
CREATE VIEW v1_publications AS
SELECT
  Messages.MessageID AS message_id, -- number of the message in the ledger; Messages
  Messages.Target AS target, -- block of the configuration, e.g. arex/jura/sgas:NAME; Messages
  Messages.Kind AS kind, -- ur, car, summaries, sync, ...; Messages
  Messages.Origin AS origin, -- publish or republish; Messages
  Messages.State AS state, -- sending (no answer yet), accepted, refused or split (into smaller messages); Messages
  Messages.Created AS created_time, -- s since 1970: written into the ledger, just before it was first sent; Messages
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Created, 'unixepoch') AS created_time_iso, -- created_time as text
  Messages.Answered AS answered_time, -- s since 1970: the receiver's answer; NULL: none yet; Messages
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Answered, 'unixepoch') AS answered_time_iso, -- answered_time as text
  Messages.Attempts AS attempts, -- how often it was sent; Messages
  Messages.AnswerCode AS answer_code, -- HTTP status of the last answer; Messages
  Messages.Answer AS answer, -- words of the last answer; Messages
  Messages.Destination AS destination, -- URL or directory it goes to; Messages
  Messages.ReceiverID AS receiver_id, -- the receiver's own id of the message; Messages
  Messages.RecordCount AS record_count, -- records, or sums, in the message; Messages
  Messages.ByteCount AS message_bytes, -- bytes of the message; Messages
  MessageRecords.JobID AS job_id, -- the job; NULL for a message of sums; MessageRecords
  MessageRecords.EndTime AS end_time, -- s since 1970: end_time of the job as it was sent; MessageRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', MessageRecords.EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  MessageRecords.Key AS receiver_key, -- what the receiver knows the record by; MessageRecords
  CASE length(MessageRecords.Digest) WHEN 0 THEN 1 ELSE 0 END AS is_neutralised, -- 1: sent with zeros, to take back an earlier key; MessageRecords
  MessageRecords.Notes AS notes -- what was repaired before sending; MessageRecords
FROM Messages LEFT JOIN MessageRecords ON MessageRecords.MessageID = Messages.MessageID;
CREATE VIEW v1_quarantine AS
SELECT
  Target AS target, -- block of the configuration; HeldRecords
  JobID AS job_id, -- the job; HeldRecords
  State AS state, -- held (goes by itself), quarantined, correction, retry or dropped; HeldRecords
  Reason AS reason, -- why, in our words or the receiver's; HeldRecords
  Attempts AS attempts, -- how often it was held back again; HeldRecords
  EndTime AS end_time, -- s since 1970: end_time of the job; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  Since AS since_time, -- s since 1970: first held back; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', Since, 'unixepoch') AS since_time_iso -- since_time as text
FROM HeldRecords;
CREATE INDEX Messages_Bytes_IDX ON Messages (Answered) WHERE Bytes IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('Messages',9);
COMMIT;
