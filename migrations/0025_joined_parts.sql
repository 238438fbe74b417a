-- Version 25: full parts of the index of stems are joined, up to 65,536 documents.

comment on table recall_parts is
  'Parts of the index: documents in a row, at most 65,536, which share rows of postings.';
comment on column recall_postings.postings is
  'Four bytes for each document: its number, counted from the last multiple of 4,096 at the first of its part (two bytes), how often it has the stem (at most 15), and its length as a code.';
