// The checksum of a row sees every value: its kind, its length and its bytes.
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>

#include "server/state/database.h"

namespace phub::server {
namespace {

// Of `SELECT hex(phub_sum(values))`.
std::string sum_of(const std::string& values) {
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open(":memory:", &opened) == SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection(opened, &sqlite3_close);
  REQUIRE(register_row_sums(opened) == SQLITE_OK);
  std::string sum;
  const auto take = [](void* into, int /*columns*/, char** texts, char** /*names*/) {
    *static_cast<std::string*>(into) = texts[0];
    return 0;
  };
  REQUIRE(sqlite3_exec(opened, ("SELECT hex(phub_sum(" + values + "))").c_str(), take, &sum,
                       nullptr) == SQLITE_OK);
  return sum;
}

}  // namespace

TEST_CASE("rows that differ in any value have different checksums") {
  const std::set<std::string> rows = {
      "1", "2", "256", "-1", "4294967297", "9223372036854775807", "1, 2", "2, 1", "NULL", "''",
      "'1'", "x'31'", "'a', 'bc'", "'ab', 'c'", "'abc'", "'abc', NULL", "NULL, 'abc'", "'abc', 0",
      // A text that looks like the end of one and the kind of the next.
      "'a', 'b'", "'a' || char(3) || 'b'"};
  std::set<std::string> sums;
  for (const std::string& row : rows) {
    INFO(row);
    CHECK(sums.insert(sum_of(row)).second);
    CHECK(sum_of(row) == sum_of(row));
  }
}

}  // namespace phub::server
