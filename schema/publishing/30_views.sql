-- The views that third parties read (docs/reference/sql.md).

-- One row for each record of each message, and one for each message that carries sums instead of records.
--   message_id: number of the message in the ledger; Messages
--   target: block of the configuration, e.g. arex/jura/sgas:NAME; Messages
--   kind: ur, car, summaries, sync, ...; Messages
--   origin: publish or republish; Messages
--   state: sending (no answer yet), accepted, refused or split (into smaller messages); Messages
--   created_time: s since 1970: written into the ledger, just before it was first sent; Messages
--   created_time_iso: created_time as text
--   answered_time: s since 1970: the receiver's answer; NULL: none yet; Messages
--   answered_time_iso: answered_time as text
--   attempts: how often it was sent; Messages
--   answer_code: HTTP status of the last answer; Messages
--   answer: words of the last answer; Messages
--   destination: URL or directory it goes to; Messages
--   receiver_id: the receiver's own id of the message; Messages
--   record_count: records, or sums, in the message; Messages
--   message_bytes: bytes of the message; Messages
--   job_id: the job; NULL for a message of sums; SentRecords
--   end_time: s since 1970: end_time of the job as it was sent; SentRecords
--   end_time_iso: end_time as text
--   receiver_key: the receiver's key of the record; SentRecords
--   is_neutralised: 1: sent with zeros, to cancel an earlier key; SentRecords
--   notes: what was repaired before sending; SentRecords
CREATE VIEW v1_publications AS
SELECT
  MessageID AS message_id,
  Messages.Target AS target,
  Messages.Kind AS kind,
  Messages.Origin AS origin,
  Messages.State AS state,
  Messages.Created AS created_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Created, 'unixepoch') AS created_time_iso,
  Messages.Answered AS answered_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Answered, 'unixepoch') AS answered_time_iso,
  Messages.Attempts AS attempts,
  Messages.AnswerCode AS answer_code,
  Messages.Answer AS answer,
  Messages.Destination AS destination,
  Messages.ReceiverID AS receiver_id,
  Messages.RecordCount AS record_count,
  Messages.ByteCount AS message_bytes,
  Record.JobID AS job_id,
  Record.EndTime AS end_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Record.EndTime, 'unixepoch') AS end_time_iso,
  KeyPrefix || coalesce(KeyRest, JobID) AS receiver_key,
  CASE length(Record.Digest) WHEN 0 THEN 1 ELSE 0 END AS is_neutralised,
  Record.Notes AS notes
FROM Messages LEFT JOIN SentRecords AS Record USING (MessageID);

-- One row for each record that a target is not sent, and why.
--   target: block of the configuration; HeldRecords
--   job_id: the job; HeldRecords
--   state: held (is sent automatically), quarantined, correction, retry or dropped; HeldRecords
--   reason: why, in our words or the receiver's; HeldRecords
--   attempts: how often it was held back again; HeldRecords
--   end_time: s since 1970: end_time of the job; HeldRecords
--   end_time_iso: end_time as text
--   since_time: s since 1970: first held back; HeldRecords
--   since_time_iso: since_time as text
--   next_try_time: s since 1970: the next try; NULL: after settle=, or only on request; HeldRecords
--   next_try_time_iso: next_try_time as text
--   refusals: number of runs in which the receiver rejected it; HeldRecords
CREATE VIEW v1_quarantine AS
SELECT
  Target AS target,
  JobID AS job_id,
  State AS state,
  Reason AS reason,
  Attempts AS attempts,
  EndTime AS end_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS end_time_iso,
  Since AS since_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Since, 'unixepoch') AS since_time_iso,
  NextTry AS next_try_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', NextTry, 'unixepoch') AS next_try_time_iso,
  Refusals AS refusals
FROM HeldRecords;
