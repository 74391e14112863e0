// The tables of state.sqlite. A change is a further entry: what is there is never edited.
//
// From version 2 on each row has a checksum over its values (phub_sum, server/state/row_sum.cc),
// which SQLite computes as it writes the row, and each table has a total of its rows' checksums, so
// that no row goes unseen; kChecks compares them at start. Types and ranges are
// the tables' own constraints, which SQLite's integrity check looks at too. Ids come from
// `counters`, so that none is given twice.
#pragma once

#include <array>
#include <string_view>

namespace phub::server {

inline constexpr std::array<std::string_view, 4> kMigrations = {R"(
CREATE TABLE tenants (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, memory_mib INTEGER NOT NULL,
  connections INTEGER NOT NULL, jobs INTEGER NOT NULL, weight INTEGER NOT NULL,
  created INTEGER NOT NULL);
INSERT INTO tenants VALUES (0, 'default', 0, 0, 0, 1, CAST(strftime('%s') AS INTEGER));
CREATE TABLE tokens (
  id INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, tenant TEXT NOT NULL,
  label TEXT NOT NULL, hash BLOB NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL,
  revoked INTEGER NOT NULL);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, tenant TEXT NOT NULL, spec BLOB NOT NULL,
  nonce_hash BLOB, snapshot TEXT NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('next_job_id', 1);
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, principal TEXT NOT NULL,
  action TEXT NOT NULL, object TEXT NOT NULL, outcome TEXT NOT NULL);
)",
                                                                R"(
ALTER TABLE tenants RENAME TO tenants_1;
ALTER TABLE tokens RENAME TO tokens_1;
ALTER TABLE jobs RENAME TO jobs_1;
ALTER TABLE counters RENAME TO counters_1;
ALTER TABLE audit RENAME TO audit_1;
CREATE TABLE tenants (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id BETWEEN 0 AND 4294967295),
  name TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
  memory_mib INTEGER NOT NULL CHECK (memory_mib BETWEEN 0 AND 1099511627776),
  connections INTEGER NOT NULL CHECK (connections BETWEEN 0 AND 4294967295),
  jobs INTEGER NOT NULL CHECK (jobs BETWEEN 0 AND 4294967295),
  weight INTEGER NOT NULL CHECK (weight BETWEEN 1 AND 1000),
  disk_mib INTEGER NOT NULL CHECK (disk_mib BETWEEN 0 AND 1099511627776),
  created INTEGER NOT NULL,
  sum BLOB AS (phub_sum('tenants', id, name, memory_mib, connections, jobs, weight, disk_mib,
                        created)) STORED) STRICT;
CREATE TABLE tokens (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id > 0),
  role TEXT NOT NULL CHECK (role IN ('admin', 'tenant', 'observer')),
  tenant INTEGER REFERENCES tenants (id), label TEXT NOT NULL,
  hash BLOB NOT NULL CHECK (length(hash) = 32), created INTEGER NOT NULL,
  expires INTEGER NOT NULL CHECK (expires >= 0), revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)),
  sum BLOB AS (phub_sum('tokens', id, role, tenant, label, hash, created, expires,
                        revoked)) STORED,
  CHECK ((role = 'tenant') = (tenant IS NOT NULL))) STRICT;
CREATE TABLE jobs (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id > 0),
  epoch INTEGER NOT NULL CHECK (epoch BETWEEN 1 AND 4294967295),
  tenant INTEGER NOT NULL REFERENCES tenants (id), spec BLOB NOT NULL,
  nonce_hash BLOB CHECK (nonce_hash IS NULL OR length(nonce_hash) = 32), snapshot TEXT NOT NULL,
  sum BLOB AS (phub_sum('jobs', id, epoch, tenant, spec, nonce_hash, snapshot)) STORED) STRICT;
CREATE TABLE counters (
  name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL CHECK (value > 0),
  sum BLOB AS (phub_sum('counters', name, value)) STORED) STRICT;
CREATE TABLE audit (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id > 0), time_ms INTEGER NOT NULL,
  by_admin INTEGER NOT NULL CHECK (by_admin IN (0, 1)), principal TEXT NOT NULL,
  action TEXT NOT NULL, object TEXT NOT NULL, outcome TEXT NOT NULL,
  sum BLOB AS (phub_sum('audit', id, time_ms, by_admin, principal, action, object,
                        outcome)) STORED) STRICT;
CREATE INDEX audit_by_admin ON audit (by_admin, id);
CREATE TABLE totals (
  name TEXT NOT NULL PRIMARY KEY, rows INTEGER NOT NULL, parts INTEGER NOT NULL,
  sum BLOB AS (phub_sum('totals', name, rows, parts)) STORED) STRICT;
INSERT INTO totals VALUES ('tenants', 0, 0), ('tokens', 0, 0), ('jobs', 0, 0), ('counters', 0, 0),
  ('audit', 0, 0);
CREATE TRIGGER tenants_added AFTER INSERT ON tenants BEGIN UPDATE totals
  SET rows = rows + 1, parts = parts + phub_part(NEW.sum) WHERE name = 'tenants'; END;
CREATE TRIGGER tenants_changed AFTER UPDATE ON tenants BEGIN UPDATE totals
  SET parts = parts + phub_part(NEW.sum) - phub_part(OLD.sum) WHERE name = 'tenants'; END;
CREATE TRIGGER tenants_removed AFTER DELETE ON tenants BEGIN UPDATE totals
  SET rows = rows - 1, parts = parts - phub_part(OLD.sum) WHERE name = 'tenants'; END;
CREATE TRIGGER tokens_added AFTER INSERT ON tokens BEGIN UPDATE totals
  SET rows = rows + 1, parts = parts + phub_part(NEW.sum) WHERE name = 'tokens'; END;
CREATE TRIGGER tokens_changed AFTER UPDATE ON tokens BEGIN UPDATE totals
  SET parts = parts + phub_part(NEW.sum) - phub_part(OLD.sum) WHERE name = 'tokens'; END;
CREATE TRIGGER tokens_removed AFTER DELETE ON tokens BEGIN UPDATE totals
  SET rows = rows - 1, parts = parts - phub_part(OLD.sum) WHERE name = 'tokens'; END;
CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN UPDATE totals
  SET rows = rows + 1, parts = parts + phub_part(NEW.sum) WHERE name = 'jobs'; END;
CREATE TRIGGER jobs_changed AFTER UPDATE ON jobs BEGIN UPDATE totals
  SET parts = parts + phub_part(NEW.sum) - phub_part(OLD.sum) WHERE name = 'jobs'; END;
CREATE TRIGGER jobs_removed AFTER DELETE ON jobs BEGIN UPDATE totals
  SET rows = rows - 1, parts = parts - phub_part(OLD.sum) WHERE name = 'jobs'; END;
CREATE TRIGGER counters_added AFTER INSERT ON counters BEGIN UPDATE totals
  SET rows = rows + 1, parts = parts + phub_part(NEW.sum) WHERE name = 'counters'; END;
CREATE TRIGGER counters_changed AFTER UPDATE ON counters BEGIN UPDATE totals
  SET parts = parts + phub_part(NEW.sum) - phub_part(OLD.sum) WHERE name = 'counters'; END;
CREATE TRIGGER counters_removed AFTER DELETE ON counters BEGIN UPDATE totals
  SET rows = rows - 1, parts = parts - phub_part(OLD.sum) WHERE name = 'counters'; END;
CREATE TRIGGER audit_added AFTER INSERT ON audit BEGIN UPDATE totals
  SET rows = rows + 1, parts = parts + phub_part(NEW.sum) WHERE name = 'audit'; END;
CREATE TRIGGER audit_changed AFTER UPDATE ON audit BEGIN UPDATE totals
  SET parts = parts + phub_part(NEW.sum) - phub_part(OLD.sum) WHERE name = 'audit'; END;
CREATE TRIGGER audit_removed AFTER DELETE ON audit BEGIN UPDATE totals
  SET rows = rows - 1, parts = parts - phub_part(OLD.sum) WHERE name = 'audit'; END;
INSERT INTO tenants SELECT id, name, memory_mib, connections, jobs, weight, 0, created
  FROM tenants_1;
INSERT INTO tokens SELECT k.id, k.role, t.id, k.label, k.hash, k.created, k.expires, k.revoked
  FROM tokens_1 k LEFT JOIN tenants t ON k.role = 'tenant' AND t.name = k.tenant
  WHERE k.role <> 'tenant' OR t.id IS NOT NULL;
INSERT INTO jobs SELECT j.id, j.epoch, t.id, j.spec, j.nonce_hash, j.snapshot
  FROM jobs_1 j JOIN tenants t ON t.name = j.tenant;
INSERT INTO counters SELECT name, value FROM counters_1;
INSERT INTO counters
  SELECT 'next_tenant_id', 1 + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tenants_1'),
                                        0);
INSERT INTO counters
  SELECT 'next_token_id', 1 + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tokens_1'),
                                       0);
INSERT INTO audit SELECT id, time_ms, outcome = 'done' AND
    (action LIKE 'tenant %' OR action LIKE 'token %'), principal, action, object, outcome
  FROM audit_1;
DROP TABLE audit_1; DROP TABLE counters_1; DROP TABLE jobs_1; DROP TABLE tokens_1;
DROP TABLE tenants_1;
)",
                                                                R"(
CREATE INDEX audit_by_principal ON audit (by_admin, principal, id);
)",
                                                                R"(
CREATE TABLE shared_tenants (
  tenant INTEGER NOT NULL PRIMARY KEY REFERENCES tenants (id),
  shared_id TEXT NOT NULL CHECK (length(shared_id) BETWEEN 1 AND 64),
  sum BLOB AS (phub_sum('shared_tenants', tenant, shared_id)) STORED) STRICT;
)"};

// Each names what is wrong, a row for each fault; without rows all is well.
inline constexpr std::array<std::string_view, 15> kChecks = {
    "SELECT 'total of ' || name FROM totals WHERE sum IS NOT phub_sum('totals', name, rows, parts)",
    "SELECT 'rows of tenants' WHERE (SELECT rows || ' ' || parts FROM totals WHERE name = "
    "'tenants') "
    "IS NOT (SELECT count(*) || ' ' || coalesce(sum(phub_part(sum)), 0) FROM tenants)",
    "SELECT 'rows of tokens' WHERE (SELECT rows || ' ' || parts FROM totals WHERE name = 'tokens') "
    "IS NOT (SELECT count(*) || ' ' || coalesce(sum(phub_part(sum)), 0) FROM tokens)",
    "SELECT 'rows of jobs' WHERE (SELECT rows || ' ' || parts FROM totals WHERE name = 'jobs') "
    "IS NOT (SELECT count(*) || ' ' || coalesce(sum(phub_part(sum)), 0) FROM jobs)",
    "SELECT 'rows of counters' WHERE (SELECT rows || ' ' || parts FROM totals WHERE name = "
    "'counters') "
    "IS NOT (SELECT count(*) || ' ' || coalesce(sum(phub_part(sum)), 0) FROM counters)",
    "SELECT 'rows of audit' WHERE (SELECT rows || ' ' || parts FROM totals WHERE name = 'audit') "
    "IS NOT (SELECT count(*) || ' ' || coalesce(sum(phub_part(sum)), 0) FROM audit)",
    "SELECT 'tenant ' || id FROM tenants WHERE sum IS NOT phub_sum('tenants', id, name, "
    "memory_mib, connections, jobs, weight, disk_mib, created)",
    "SELECT 'shared id of tenant ' || tenant FROM shared_tenants WHERE sum IS NOT "
    "phub_sum('shared_tenants', tenant, shared_id)",
    "SELECT 'token ' || id FROM tokens WHERE sum IS NOT phub_sum('tokens', id, role, tenant, "
    "label, hash, created, expires, revoked)",
    "SELECT 'job ' || id FROM jobs WHERE sum IS NOT phub_sum('jobs', id, epoch, tenant, spec, "
    "nonce_hash, snapshot)",
    "SELECT 'counter ' || name FROM counters WHERE sum IS NOT phub_sum('counters', name, value)",
    "SELECT 'audit record ' || id FROM audit WHERE sum IS NOT phub_sum('audit', id, time_ms, "
    "by_admin, principal, action, object, outcome)",
    "SELECT 'no default tenant' WHERE (SELECT name FROM tenants WHERE id = 0) IS NOT 'default'",
    "SELECT 'no counter of jobs, tenants or tokens' WHERE (SELECT count(*) FROM counters "
    "WHERE name IN ('next_job_id', 'next_tenant_id', 'next_token_id')) <> 3",
    "SELECT 'an id above its counter' FROM counters c WHERE c.value <= CASE c.name "
    "WHEN 'next_job_id' THEN (SELECT coalesce(max(id), 0) FROM jobs) "
    "WHEN 'next_tenant_id' THEN (SELECT max(id) FROM tenants) "
    "ELSE (SELECT coalesce(max(id), 0) FROM tokens) END"};

}  // namespace phub::server
