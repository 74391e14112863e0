#include "server/state/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/base/unique_fd.h"
#include "server/state/whole_file.h"

namespace phub::server {
namespace {

constexpr std::string_view kNewSuffix = ".new";
constexpr std::string_view kJournalSuffix = "-journal";

Status error_of(sqlite3* connection) {
  const char* const message = sqlite3_errmsg(connection);
  const int code = sqlite3_errcode(connection);
  const bool is_full = code == SQLITE_FULL || sqlite3_system_errno(connection) == ENOSPC;
  if (is_full) {
    return {Code::kResourceExhausted,
            fmt::format("the server's state cannot be written: {}; make room in state_folder",
                        message)};
  }
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return {Code::kDataLoss, fmt::format("the server's state is damaged: {}", message)};
  }
  if (code == SQLITE_CONSTRAINT) {
    return {
        Code::kFailedPrecondition,
        fmt::format("what it belongs to is not there any more, or is there already: {}", message)};
  }
  return {Code::kInternal, fmt::format("the server's state cannot be written or read: {}; is "
                                       "there room in state_folder?",
                                       message)};
}

// 0: there is no such file.
std::uint64_t inode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

// Every table, index, view and trigger, in the words that made it.
Result<std::vector<std::string>> parts_of(Database& database) {
  Statement query = database.prepare(
      "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') "
      "FROM sqlite_master ORDER BY type, name");
  return query.rows<std::string>([&] { return query.text(0); });
}

Status lost(std::string what) { return {Code::kDataLoss, std::move(what)}; }

// OK when the first row of the query, if there is one, is `expected`.
Status first_row_is(Database& database, std::string_view sql, std::string_view expected) {
  Statement query = database.prepare(sql);
  PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
  if (!has_row || query.text(0) == expected) return {};
  return lost(query.text(0));
}

// That the file is whole as SQLite sees it, and has the tables that `migrations` make and no
// others. Errors: kDataLoss says what is wrong.
Status check_structure(Database& database, std::span<const std::string_view> migrations) {
  PHUB_RETURN_IF_ERROR(first_row_is(database, "PRAGMA integrity_check(1)", "ok"));
  PHUB_ASSIGN_OR_RETURN(const auto reference, Database::open("", {.migrations = migrations}));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> expected, parts_of(*reference));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> found, parts_of(database));
  if (found == expected) return {};
  return lost(fmt::format("its tables are not those of schema {}", migrations.size()));
}

// That constraints, references and `checks` hold. Errors: kDataLoss names the first fault.
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

// What is said of such a file, with the cure.
Status damaged_file(const std::string& path, std::string_view what) {
  return {Code::kDataLoss,
          fmt::format("state_folder: {} is damaged: {}; put back a copy of it, or move it away to "
                      "begin without tenants, tokens and saved jobs",
                      path, what)};
}

}  // namespace

Statement::Statement(sqlite3_stmt* statement, sqlite3* connection)
    : statement_(statement), connection_(connection) {
  if (statement == nullptr) unprepared_ = error_of(connection);
}

void Statement::set(int index, std::string_view text) {
  sqlite3_bind_text(statement_.get(), index, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);  // NOLINT(performance-no-int-to-ptr): SQLite's own
}

void Statement::set(int index, std::span<const std::uint8_t> bytes) {
  sqlite3_bind_blob(statement_.get(), index, bytes.data(), static_cast<int>(bytes.size()),
                    SQLITE_TRANSIENT);  // NOLINT(performance-no-int-to-ptr): SQLite's own
}

Result<bool> Statement::step() {
  PHUB_RETURN_IF_ERROR(unprepared_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return error_of(connection_);
}

Status Statement::run() {
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, step());
    if (!has_row) return {};
  }
}

std::string Statement::text(int column) const {
  const auto* const text = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return text == nullptr ? "" : std::string(text, static_cast<std::size_t>(size));
}

std::optional<Digest> Statement::digest(int column) const {
  const std::string bytes = text(column);
  Digest digest{};
  if (bytes.size() != digest.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path, const Schema& schema) {
  std::error_code error;
  if (!path.empty() && !std::filesystem::exists(path, error)) {
    PHUB_RETURN_IF_ERROR(make(path, schema));
  }
  if (!path.empty() && std::filesystem::file_size(path, error) == 0) {
    return damaged_file(path, "it is empty");
  }
  std::unique_ptr<Database> database(new Database(path));
  PHUB_RETURN_IF_ERROR(database->connect());
  PHUB_RETURN_IF_ERROR(database->check_and_migrate(schema));
  return database;
}

// What an earlier file of that name left beside it would be taken for the new one's.
Status Database::make(const std::string& path, const Schema& schema) {
  const std::string unfinished = path + std::string(kNewSuffix);
  std::error_code error;
  for (const std::string& name : {path, unfinished}) {
    std::filesystem::remove(name + std::string(kJournalSuffix), error);
    std::filesystem::remove(name + "-wal", error);
  }
  std::filesystem::remove(unfinished, error);
  {
    Database database(unfinished);
    PHUB_RETURN_IF_ERROR(database.connect());
    PHUB_RETURN_IF_ERROR(database.migrate(schema.migrations, 0).with_context(unfinished));
  }
  std::filesystem::remove(unfinished + std::string(kJournalSuffix), error);
  return rename_durably(unfinished, path).with_context("state_folder");
}

Status Database::connect() {
  if (!path_.empty()) {
    // Tokens' hashes and the audit log are for the server's user only; the journal inherits this.
    const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) return errno_status("state_folder: cannot open " + path_, Code::kPermissionDenied);
    inode_ = inode_of(path_);
  }
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path_.empty() ? ":memory:" : path_.c_str(), &connection,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  connection_.reset(connection);
  if (code != SQLITE_OK || register_row_sums(connection) != SQLITE_OK) {
    return {Code::kInternal, fmt::format("state_folder: {}: {}", path_, sqlite3_errstr(code))};
  }
  return lock();
}

// The lock is the process's own and goes with it, also when it is killed.
Status Database::lock() {
  const Status locked = execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = PERSIST; PRAGMA synchronous = FULL; "
      "PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON; BEGIN EXCLUSIVE; COMMIT;");
  if (locked.ok()) return {};
  const int reason = sqlite3_errcode(connection_.get());
  if (reason == SQLITE_BUSY || reason == SQLITE_LOCKED) {
    return {Code::kFailedPrecondition,
            fmt::format("state_folder: {} is in use by another phub-server; stop that one, or give "
                        "this one a folder of its own",
                        path_)};
  }
  if (reason == SQLITE_NOTADB) return damaged_file(path_, "it is no database");
  if (reason == SQLITE_CORRUPT) return damaged_file(path_, locked.message());
  return locked.with_context("state_folder: " + path_);
}

Status Database::check_and_migrate(const Schema& schema) {
  Statement query = prepare("PRAGMA user_version");
  const Result<bool> has_row = query.step();
  if (!has_row) return damaged_file(path_, has_row.error().message());
  const auto version = static_cast<std::size_t>(query.integer(0));
  PHUB_RETURN_IF_ERROR(query.run());
  if (version > schema.migrations.size()) {
    return {Code::kFailedPrecondition,
            fmt::format("state_folder: {} has schema {}, this phub-server knows up to {}; start a "
                        "newer phub-server, or choose another folder",
                        path_, version, schema.migrations.size())};
  }
  // What a file holds is looked at before it is changed, and again when it is all that it should.
  if (!path_.empty()) {
    const Status whole = check_structure(*this, schema.migrations.first(version));
    if (!whole.ok()) return damaged_file(path_, whole.message());
  }
  PHUB_RETURN_IF_ERROR(migrate(schema.migrations, version).with_context("state_folder: " + path_));
  if (path_.empty()) return {};
  const Status right = check_contents(*this, schema.checks);
  return right.ok() ? Status() : damaged_file(path_, right.message());
}

Status Database::migrate(std::span<const std::string_view> migrations, std::size_t from) {
  for (; from < migrations.size(); ++from) {
    PHUB_RETURN_IF_ERROR(transact([&] {
      return execute(fmt::format("{} PRAGMA user_version = {};", migrations[from], from + 1));
    }));
  }
  return {};
}

Status Database::check_place() const {
  if (path_.empty() || inode_of(path_) == inode_) return {};
  return {Code::kDataLoss,
          fmt::format("state_folder: {} was removed or replaced while the server runs, so nothing "
                      "can be kept; put the folder back, and start the server again",
                      path_)};
}

Status Database::transact(const std::function<Status()>& change) {
  PHUB_RETURN_IF_ERROR(check_place());
  PHUB_RETURN_IF_ERROR(execute("BEGIN IMMEDIATE"));
  Status done = change();
  if (done.ok()) done = execute("COMMIT");
  if (!done.ok() && sqlite3_get_autocommit(connection_.get()) == 0) {
    static_cast<void>(execute("ROLLBACK"));  // `done` says why
  }
  return done;
}

Status Database::execute(const std::string& sql) {
  if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return {};
  }
  return error_of(connection_.get());
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &statement,
                     nullptr);
  return {statement, connection_.get()};
}

}  // namespace phub::server
