#include "server/state/integrity.h"

#include <fmt/format.h>

#include <vector>

namespace phub::server {
namespace {

// Every table, index, view and trigger, in the words that made it.
Result<std::vector<std::string>> parts_of(Database& database) {
  Statement query = database.prepare(
      "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') "
      "FROM sqlite_master ORDER BY type, name");
  std::vector<std::string> parts;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return parts;
    parts.push_back(query.text(0));
  }
}

Status lost(std::string what) { return {Code::kDataLoss, std::move(what)}; }

// OK when the first row of the query, if there is one, is `expected`.
Status first_row_is(Database& database, std::string_view sql, std::string_view expected) {
  Statement query = database.prepare(sql);
  PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
  if (!has_row || query.text(0) == expected) return {};
  return lost(query.text(0));
}

}  // namespace

Status check_structure(Database& database, std::span<const std::string_view> migrations) {
  PHUB_RETURN_IF_ERROR(first_row_is(database, "PRAGMA integrity_check(1)", "ok"));
  PHUB_ASSIGN_OR_RETURN(const auto reference, Database::open("", {.migrations = migrations}));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> expected, parts_of(*reference));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> found, parts_of(database));
  if (found == expected) return {};
  return lost(fmt::format("its tables are not those of schema {}", migrations.size()));
}

Status check_contents(Database& database, std::span<const std::string_view> checks) {
  PHUB_RETURN_IF_ERROR(first_row_is(database, "PRAGMA integrity_check(1)", "ok"));
  PHUB_RETURN_IF_ERROR(first_row_is(database, "PRAGMA foreign_key_check", "")
                           .with_context("a reference leads nowhere from"));
  for (const std::string_view check : checks) {
    PHUB_RETURN_IF_ERROR(
        first_row_is(database, check, "").with_context("not what was written there"));
  }
  return {};
}

Status damaged_file(const std::string& path, std::string_view what) {
  return {Code::kDataLoss,
          fmt::format("state_folder: {} is damaged: {}; put back a copy of it, or move it away to "
                      "begin without tenants, tokens and saved jobs",
                      path, what)};
}

}  // namespace phub::server
