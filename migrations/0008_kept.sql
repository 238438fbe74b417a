-- Version 8: a place kept for another change; nothing is done.

select 1;
