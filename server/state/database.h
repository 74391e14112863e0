// A SQLite file: opened for this process alone, found whole, its schema brought up to date.
//
// A change is on the disk when it is committed (synchronous FULL). The journal is a file beside it
// that exists at rest but holds nothing then: all that was committed is in the one file, where the
// checks at the next start see it; of a write-ahead log SQLite would drop a damaged end in silence.
//
// One thread at a time. Only server/state includes SQLite.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "server/tenants/secret.h"

namespace phub::server {

// A prepared statement; columns are read from 0, as SQLite counts.
class Statement {
 public:
  // `statement` null: it could not be prepared, which each step then says.
  Statement(sqlite3_stmt* statement, sqlite3* connection);

  // The values of its parameters, in order: integers, text, bytes, or an optional of them.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (set(++index, values), ...);
    return *this;
  }

  // True: there is a row to read. False: done. Errors: kResourceExhausted for want of room,
  // kDataLoss for a damaged file, kFailedPrecondition for what a constraint refuses, kInternal.
  Result<bool> step();
  Status run();  // to its end
  // What `read` makes of each row that is left.
  template <typename Row>
  Result<std::vector<Row>> rows(const std::function<Result<Row>()>& read) {
    std::vector<Row> all;
    while (true) {
      PHUB_ASSIGN_OR_RETURN(const bool has_row, step());
      if (!has_row) return all;
      PHUB_ASSIGN_OR_RETURN(Row row, read());
      all.push_back(std::move(row));
    }
  }

  template <typename Number = std::int64_t>
  Number integer(int column) const {
    return static_cast<Number>(sqlite3_column_int64(statement_.get(), column));
  }
  std::string text(int column) const;              // or bytes
  std::optional<Digest> digest(int column) const;  // nothing: it is none

 private:
  void set(int index, std::integral auto value) {
    sqlite3_bind_int64(statement_.get(), index, static_cast<std::int64_t>(value));
  }
  void set(int index, std::string_view text);
  void set(int index, std::span<const std::uint8_t> bytes);
  template <typename Value>
  void set(int index, const std::optional<Value>& value) {
    if (value) set(index, *value);  // what is not bound is NULL
  }

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  sqlite3* connection_;
  Status unprepared_;
};

// Makes the SQL functions of row_sum.cc. Returns SQLite's code.
int register_row_sums(sqlite3* connection);

// How a database comes to be and is checked.
struct Schema {
  // The statements that take version v to v + 1.
  std::span<const std::string_view> migrations;
  // Queries whose rows each name a fault in what the tables hold.
  std::span<const std::string_view> checks = {};
};

class Database {
 public:
  // `path` empty: in memory. A file that is not there is made whole under another name and renamed,
  // so an empty one is damage. Errors: kFailedPrecondition (a newer schema, another process has
  // it), kDataLoss (damaged), kResourceExhausted, kInternal; each names the file and the cure.
  static Result<std::unique_ptr<Database>> open(const std::string& path, const Schema& schema);

  // Runs `change` in a transaction: all of it is on the disk when this returns OK, or nothing.
  Status transact(const std::function<Status()>& change);
  Status execute(const std::string& sql);
  Statement prepare(std::string_view sql);

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  };
  explicit Database(std::string path) : path_(std::move(path)) {}
  static Status make(const std::string& path, const Schema& schema);
  Status connect();
  Status lock();
  // Errors: kDataLoss: what is written now would be gone with this process.
  Status check_place() const;
  Status check_and_migrate(const Schema& schema);
  Status migrate(std::span<const std::string_view> migrations, std::size_t from);

  const std::string path_;
  std::uint64_t inode_ = 0;  // of the file at path_ when it was opened
  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace phub::server
