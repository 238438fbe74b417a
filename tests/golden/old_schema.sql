-- What the program of commit 28df980b left in ikigai_migrations, as pg_dump wrote it.
CREATE SCHEMA ikigai;
CREATE TABLE ikigai.ikigai_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
COMMENT ON TABLE ikigai.ikigai_migrations IS 'The migrations applied to this schema; the highest version is the version of the schema.';
INSERT INTO ikigai.ikigai_migrations VALUES (1, 'log', '2026-11-28 22:43:07.758716+00');
INSERT INTO ikigai.ikigai_migrations VALUES (2, 'usage', '2026-11-28 22:43:07.794601+00');
INSERT INTO ikigai.ikigai_migrations VALUES (3, 'draft_thinking', '2026-11-28 22:43:07.807422+00');
INSERT INTO ikigai.ikigai_migrations VALUES (4, 'prunes', '2026-11-28 22:43:07.817761+00');
INSERT INTO ikigai.ikigai_migrations VALUES (5, 'views', '2026-11-28 22:43:07.841762+00');
INSERT INTO ikigai.ikigai_migrations VALUES (6, 'search', '2026-11-28 22:43:07.857453+00');
INSERT INTO ikigai.ikigai_migrations VALUES (7, 'killed', '2026-11-28 22:43:07.861577+00');
INSERT INTO ikigai.ikigai_migrations VALUES (8, 'follow', '2026-11-28 22:43:07.875378+00');
INSERT INTO ikigai.ikigai_migrations VALUES (9, 'mail', '2026-11-28 22:43:07.891471+00');
INSERT INTO ikigai.ikigai_migrations VALUES (10, 'comments', '2026-11-28 22:43:07.894556+00');
INSERT INTO ikigai.ikigai_migrations VALUES (11, 'archived', '2026-11-28 22:43:07.903016+00');
INSERT INTO ikigai.ikigai_migrations VALUES (12, 'agent_uses', '2026-11-28 22:43:07.917218+00');
INSERT INTO ikigai.ikigai_migrations VALUES (13, 'column_comments', '2026-11-28 22:43:07.927378+00');
INSERT INTO ikigai.ikigai_migrations VALUES (14, 'spending', '2026-11-28 22:43:07.944641+00');
INSERT INTO ikigai.ikigai_migrations VALUES (15, 'recall', '2026-11-28 22:43:07.981291+00');
INSERT INTO ikigai.ikigai_migrations VALUES (16, 'cache_misses', '2026-11-28 22:43:07.994471+00');
INSERT INTO ikigai.ikigai_migrations VALUES (17, 'searches', '2026-11-28 22:43:08.018683+00');
INSERT INTO ikigai.ikigai_migrations VALUES (18, 'auto_recall', '2026-11-28 22:43:08.030463+00');
INSERT INTO ikigai.ikigai_migrations VALUES (19, 'owners', '2026-11-28 22:43:08.054473+00');
INSERT INTO ikigai.ikigai_migrations VALUES (20, 'behind', '2026-11-28 22:43:08.118496+00');
INSERT INTO ikigai.ikigai_migrations VALUES (21, 'usage_sums', '2026-11-28 22:43:08.153176+00');
INSERT INTO ikigai.ikigai_migrations VALUES (22, 'row_security', '2026-11-28 22:43:08.194679+00');
INSERT INTO ikigai.ikigai_migrations VALUES (23, 'packs', '2026-11-28 22:43:08.224992+00');
INSERT INTO ikigai.ikigai_migrations VALUES (24, 'agent_lists', '2026-11-28 22:43:08.242826+00');
INSERT INTO ikigai.ikigai_migrations VALUES (25, 'joined_parts', '2026-11-28 22:43:08.244748+00');
INSERT INTO ikigai.ikigai_migrations VALUES (26, 'spenders', '2026-11-28 22:43:08.259817+00');
INSERT INTO ikigai.ikigai_migrations VALUES (27, 'spender_check', '2026-11-28 22:43:08.270231+00');
INSERT INTO ikigai.ikigai_migrations VALUES (28, 'spent_rows', '2026-11-28 22:43:08.273396+00');
INSERT INTO ikigai.ikigai_migrations VALUES (29, 'cited_pages', '2026-11-28 22:43:08.292188+00');
INSERT INTO ikigai.ikigai_migrations VALUES (30, 'usage_totals', '2026-11-28 22:43:08.319909+00');
INSERT INTO ikigai.ikigai_migrations VALUES (31, 'user_limits', '2026-11-28 22:43:08.338558+00');
INSERT INTO ikigai.ikigai_migrations VALUES (32, 'shared_approval', '2026-11-28 22:43:08.341523+00');
INSERT INTO ikigai.ikigai_migrations VALUES (33, 'mail_senders', '2026-11-28 22:43:08.360389+00');
ALTER TABLE ONLY ikigai.ikigai_migrations
    ADD CONSTRAINT ikigai_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ikigai.ikigai_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON ikigai.ikigai_migrations FOR SELECT USING (true);
