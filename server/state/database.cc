#include "server/state/database.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace phub::server {

Statement& Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::bind(int index, std::string_view text) {
  sqlite3_bind_text(statement_.get(), index, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);  // NOLINT(performance-no-int-to-ptr): SQLite's own
  return *this;
}

Statement& Statement::bind(int index, std::span<const std::uint8_t> bytes) {
  sqlite3_bind_blob(statement_.get(), index, bytes.data(), static_cast<int>(bytes.size()),
                    SQLITE_TRANSIENT);  // NOLINT(performance-no-int-to-ptr): SQLite's own
  return *this;
}

Statement& Statement::bind_null(int index) {
  sqlite3_bind_null(statement_.get(), index);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Status(Code::kInternal, fmt::format("the server's state cannot be written or read: {}; "
                                             "is there room in state_folder?",
                                             sqlite3_errmsg(connection_)));
}

Status Statement::run() {
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, step());
    if (!has_row) return {};
  }
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* const text = sqlite3_column_text(statement_.get(), column);
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

std::vector<std::uint8_t> Statement::bytes(int column) const {
  const auto* const data =
      static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::vector<std::uint8_t>() : std::vector(data, data + size);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 std::span<const std::string_view> migrations) {
  std::unique_ptr<Database> database(new Database(path));
  PHUB_RETURN_IF_ERROR(database->connect());
  PHUB_RETURN_IF_ERROR(database->migrate(migrations));
  return database;
}

// The lock is the process's own and goes with it, also when it is killed.
Status Database::connect() {
  if (!path_.empty()) {
    // Tokens' hashes and the audit log are for the server's user only; the journals inherit this.
    const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) return errno_status("state_folder: cannot open " + path_, Code::kPermissionDenied);
  }
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path_.empty() ? ":memory:" : path_.c_str(), &connection,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  connection_.reset(connection);
  if (code != SQLITE_OK) {
    return {Code::kInternal, fmt::format("state_folder: {}: {}", path_, sqlite3_errstr(code))};
  }
  const Status locked = execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; "
      "PRAGMA synchronous = FULL; BEGIN EXCLUSIVE; COMMIT;");
  if (locked.ok()) return {};
  const int reason = sqlite3_errcode(connection_.get());
  if (reason == SQLITE_BUSY || reason == SQLITE_LOCKED) {
    return {Code::kFailedPrecondition,
            fmt::format("state_folder: {} is in use by another phub-server; stop that one, or give "
                        "this one a folder of its own",
                        path_)};
  }
  if (reason == SQLITE_NOTADB) {
    return {Code::kFailedPrecondition,
            fmt::format("state_folder: {} is no database; move it away, or choose another folder",
                        path_)};
  }
  return locked.with_context("state_folder: " + path_);
}

Status Database::migrate(std::span<const std::string_view> migrations) {
  Statement query = prepare("PRAGMA user_version");
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool has_row, query.step());
  const auto version = static_cast<std::size_t>(query.integer(0));
  if (version > migrations.size()) {
    return {Code::kFailedPrecondition,
            fmt::format("state_folder: {} has schema {}, this phub-server knows up to {}; start a "
                        "newer phub-server, or choose another folder",
                        path_, version, migrations.size())};
  }
  PHUB_RETURN_IF_ERROR(query.run());
  for (std::size_t from = version; from < migrations.size(); ++from) {
    PHUB_RETURN_IF_ERROR(execute(
        fmt::format("BEGIN; {} PRAGMA user_version = {}; COMMIT;", migrations[from], from + 1)));
  }
  return {};
}

Status Database::execute(const std::string& sql) {
  if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return {};
  }
  return {Code::kInternal, sqlite3_errmsg(connection_.get())};
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  PHUB_CHECK(code == SQLITE_OK, sqlite3_errmsg(connection_.get()));
  return {statement, connection_.get()};
}

}  // namespace phub::server
