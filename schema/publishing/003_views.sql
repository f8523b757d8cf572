-- The contract with third parties, as in the accounting database: within v1 columns are only ever added.

-- One row for each record of each message, and one for each message that carries sums instead of records.
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

-- One row for each record that a target is not sent, and why.
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
