CREATE SCHEMA contrastive_st;
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
COMMENT ON EXTENSION vector IS 'vector data type and ivfflat and hnsw access methods';
CREATE TABLE contrastive_st.collections (
    name text NOT NULL,
    model text NOT NULL,
    fingerprint text NOT NULL,
    dimension integer NOT NULL,
    storage text NOT NULL,
    partitions integer NOT NULL,
    index text DEFAULT 'none'::text NOT NULL,
    created timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE contrastive_st.docs_texts (
    id bigint NOT NULL,
    text text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL
);
ALTER TABLE ONLY contrastive_st.docs_texts ALTER COLUMN metadata SET STATISTICS 1000;
CREATE TABLE contrastive_st.docs_vectors (
    id bigint NOT NULL,
    embedding public.halfvec(8) NOT NULL
)
PARTITION BY HASH (id);
CREATE VIEW contrastive_st.docs AS
 SELECT v.id,
    t.text,
    t.metadata,
    v.embedding
   FROM (contrastive_st.docs_vectors v
     JOIN contrastive_st.docs_texts t ON ((t.id = v.id)));
CREATE TABLE contrastive_st.docs_vectors_0 (
    id bigint CONSTRAINT docs_vectors_id_not_null NOT NULL,
    embedding public.halfvec(8) CONSTRAINT docs_vectors_embedding_not_null NOT NULL
);
ALTER TABLE ONLY contrastive_st.docs_vectors_0 ALTER COLUMN embedding SET STORAGE PLAIN;
CREATE TABLE contrastive_st.migrations (
    version integer NOT NULL,
    applied timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE contrastive_st.shards (
    collection text NOT NULL,
    source integer NOT NULL,
    shard integer NOT NULL,
    rows integer NOT NULL,
    added timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE contrastive_st.sources (
    collection text NOT NULL,
    number integer NOT NULL,
    name text NOT NULL,
    mark text NOT NULL,
    shards integer
);
ALTER TABLE ONLY contrastive_st.docs_vectors ATTACH PARTITION contrastive_st.docs_vectors_0 FOR VALUES WITH (modulus 1, remainder 0);
COPY contrastive_st.collections (name, model, fingerprint, dimension, storage, partitions, index, created) FROM stdin;
docs	made/static	49b4a20e55dc4190b6961c2e663b5fe8	8	halfvec	1	hnsw	2026-11-24 05:15:13.590051+00
\.
COPY contrastive_st.docs_texts (id, text, metadata) FROM stdin;
0	the cat sat on the mat	{"year": 1990}
1	a dog ran far away today	{"year": 1991}
2	rain fell on the old town	{"year": 1992}
3	she reads a long book	{"year": 1993}
4	the town was quiet	{"year": 1994}
5	a cat and a dog	{"year": 1995}
6	he wrote the book on a rainy day in the old quiet town	{"year": 1996}
7	today the rain ran away	{"year": 1997}
\.
COPY contrastive_st.docs_vectors_0 (id, embedding) FROM stdin;
0	[-0.5986328,0.53808594,-0.26831055,0.23022461,-0.23364258,-0.1427002,-0.05267334,-0.38720703]
1	[-0.70458984,0.36743164,0.07220459,-0.15515137,-0.39501953,-0.22729492,0.04397583,0.36010742]
2	[-0.36254883,-0.052246094,-0.4716797,-0.2010498,-0.6401367,-0.4248047,-0.033294678,-0.10644531]
3	[0.03955078,0.52734375,-0.091430664,-0.006072998,-0.47583008,-0.04434204,0.63671875,0.27954102]
4	[-0.5888672,0.53515625,-0.32104492,0.2680664,-0.28320312,0.21386719,0.1661377,0.19604492]
5	[-0.58935547,0.51220703,0.20593262,-0.3190918,-0.4494629,0.007598877,0.2084961,0.017745972]
6	[-0.44384766,0.6455078,-0.11279297,-0.013641357,-0.5683594,-0.17773438,0.1307373,0.04043579]
7	[-0.4885254,0.36083984,-0.5048828,0.19885254,-0.31225586,-0.2734375,-0.2824707,0.29052734]
\.
COPY contrastive_st.migrations (version, applied) FROM stdin;
1	2026-11-24 05:15:13.383648+00
2	2026-11-24 05:15:13.383648+00
\.
COPY contrastive_st.shards (collection, source, shard, rows, added) FROM stdin;
docs	0	0	8	2026-11-24 05:15:13.826914+00
\.
COPY contrastive_st.sources (collection, number, name, mark, shards) FROM stdin;
docs	0	made/docs.csv	1d2f5571a32c854e73c77bf21e49413a 16384	1
\.
ALTER TABLE ONLY contrastive_st.collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (name);
ALTER TABLE ONLY contrastive_st.docs_texts
    ADD CONSTRAINT docs_texts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY contrastive_st.docs_vectors
    ADD CONSTRAINT docs_vectors_pkey PRIMARY KEY (id);
ALTER TABLE ONLY contrastive_st.docs_vectors_0
    ADD CONSTRAINT docs_vectors_0_pkey PRIMARY KEY (id);
ALTER TABLE ONLY contrastive_st.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY contrastive_st.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (collection, source, shard);
ALTER TABLE ONLY contrastive_st.sources
    ADD CONSTRAINT sources_collection_name_key UNIQUE (collection, name);
ALTER TABLE ONLY contrastive_st.sources
    ADD CONSTRAINT sources_pkey PRIMARY KEY (collection, number);
CREATE INDEX docs_hnsw ON ONLY contrastive_st.docs_vectors USING hnsw (embedding public.halfvec_cosine_ops) WITH (m='16', ef_construction='64');
CREATE INDEX docs_metadata ON contrastive_st.docs_texts USING gin (metadata jsonb_path_ops);
CREATE INDEX docs_vectors_0_embedding_idx ON contrastive_st.docs_vectors_0 USING hnsw (embedding public.halfvec_cosine_ops) WITH (m='16', ef_construction='64');
CREATE INDEX docs_words ON contrastive_st.docs_texts USING gin (to_tsvector('english'::regconfig, "left"(text, 100000)));
ALTER INDEX contrastive_st.docs_hnsw ATTACH PARTITION contrastive_st.docs_vectors_0_embedding_idx;
ALTER INDEX contrastive_st.docs_vectors_pkey ATTACH PARTITION contrastive_st.docs_vectors_0_pkey;
ALTER TABLE ONLY contrastive_st.shards
    ADD CONSTRAINT shards_collection_source_fkey FOREIGN KEY (collection, source) REFERENCES contrastive_st.sources(collection, number) ON DELETE CASCADE;
ALTER TABLE ONLY contrastive_st.sources
    ADD CONSTRAINT sources_collection_fkey FOREIGN KEY (collection) REFERENCES contrastive_st.collections(name) ON DELETE CASCADE;
