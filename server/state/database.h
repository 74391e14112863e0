// A SQLite file: opened for this process alone, its schema brought up to date.
//
// One thread at a time. Only server/state includes SQLite.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace phub::server {

// A prepared statement; bound from 1, read from 0, as SQLite counts.
class Statement {
 public:
  Statement(sqlite3_stmt* statement, sqlite3* connection)
      : statement_(statement), connection_(connection) {}

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::span<const std::uint8_t> bytes);
  Statement& bind_null(int index);

  // True: there is a row to read. False: done.
  Result<bool> step();
  Status run();  // to its end

  std::int64_t integer(int column) const;
  std::string text(int column) const;
  std::vector<std::uint8_t> bytes(int column) const;
  bool is_null(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  sqlite3* connection_;
};

class Database {
 public:
  // `path` empty: in memory. `migrations[v]` takes the schema from version v to v + 1.
  // Errors: kFailedPrecondition (a newer schema, another process has it), kInternal; each names the
  // file and the cure.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                std::span<const std::string_view> migrations);

  Status execute(const std::string& sql);
  // REQUIRES: `sql` is right: it is ours.
  Statement prepare(std::string_view sql);
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(connection_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  };
  explicit Database(std::string path) : path_(std::move(path)) {}
  Status connect();
  Status migrate(std::span<const std::string_view> migrations);

  const std::string path_;
  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace phub::server
