-- Records of imports that could not be used, kept until they can be, or until somebody drops them.
CREATE TABLE RejectedRecords (
  RejectedID INTEGER PRIMARY KEY,
  Source     TEXT NOT NULL,     -- gridengine, sonar, arex, features
  Scope      TEXT NOT NULL,     -- cell of Grid Engine; '' for others
  File       TEXT NOT NULL,     -- where it was read; '-' for standard input
  Position   TEXT NOT NULL,     -- line, object or number of the record in it
  Digest     BLOB NOT NULL,     -- of the whole record: one that is met again is the same row
  Reason     TEXT NOT NULL,
  IsOurs     INTEGER NOT NULL,  -- 1: an error of this program, not of the record
  Records    INTEGER NOT NULL,  -- 1, or how many further ones of the file were only counted (Content is NULL then)
  Rejected   INTEGER NOT NULL,  -- s since 1970: met first
  Bytes      INTEGER NOT NULL,  -- of the whole record; of one that is too long Content has the beginning
  Content    BLOB,
  UNIQUE (Source, Scope, Digest)
);
