-- The jobs of a user are found by the name that v1_jobs shows; the program then makes the views anew.
CREATE INDEX Users_PlainName_IDX ON Users (
  CAST(nullif(replace(replace(replace(replace(replace(replace(replace(replace(Name, '%27', ''''), '%23', '#'),
         '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%'),
         '') AS TEXT));
