// The SQL functions phub_sum(...), a checksum over its arguments, their types and their order, and
// phub_part(checksum), 40 bits of it as a number, small enough to be added up over a table.
//
// SQLite computes it as rows are written and compared, on the thread that runs the statement.

#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <string>

#include "server/state/database.h"

namespace phub::server {
namespace {

constexpr int kSumBytes = 16;  // of SHA-256: damage is what it is for, not forgery
constexpr int kPartBytes = 5;

void append_number(std::string& text, std::uint64_t value) {
  for (unsigned byte = 0; byte < 8; ++byte) text += static_cast<char>(value >> (8 * byte));
}

void append(std::string& text, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  text += static_cast<char>(type);
  if (type == SQLITE_NULL) return;
  if (type == SQLITE_INTEGER) {
    append_number(text, static_cast<std::uint64_t>(sqlite3_value_int64(value)));
    return;
  }
  const auto* const bytes = static_cast<const char*>(sqlite3_value_blob(value));
  const auto count = static_cast<std::size_t>(sqlite3_value_bytes(value));
  append_number(text, count);
  if (bytes != nullptr) text.append(bytes, count);
}

void row_sum(sqlite3_context* context, int count, sqlite3_value** values) {
  std::string text;
  for (int i = 0; i < count; ++i) append(text, values[i]);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  sqlite3_result_blob(context, digest.data(), kSumBytes,
                      SQLITE_TRANSIENT);  // NOLINT(performance-no-int-to-ptr): SQLite's own
}

void row_part(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
  const auto* const bytes = static_cast<const unsigned char*>(sqlite3_value_blob(values[0]));
  std::int64_t part = 0;
  for (int i = 0; i < kPartBytes && i < sqlite3_value_bytes(values[0]); ++i) {
    part = part << 8 | bytes[i];
  }
  sqlite3_result_int64(context, part);
}

}  // namespace

int register_row_sums(sqlite3* connection) {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  const int code = sqlite3_create_function_v2(connection, "phub_sum", -1, kFlags, nullptr, row_sum,
                                              nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return code;
  return sqlite3_create_function_v2(connection, "phub_part", 1, kFlags, nullptr, row_part, nullptr,
                                    nullptr, nullptr);
}

}  // namespace phub::server
