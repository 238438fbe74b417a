-- Version 9: a place kept for another change; nothing is done.

select 1;
