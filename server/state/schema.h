// The tables of state.sqlite. A change is a further entry: what is there is never edited.
#pragma once

#include <array>
#include <string_view>

namespace phub::server {

inline constexpr std::array<std::string_view, 1> kMigrations = {R"(
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
)"};

}  // namespace phub::server
