// The SQL functions phub_sum(...), a checksum over its arguments, their types and their order, and
// phub_part(checksum), 40 bits of it as a number, small enough to be added up over a table.
//
// SQLite computes it as rows are written and compared, on the thread that runs the statement.
#pragma once

#include <sqlite3.h>

namespace phub::server {

// Returns SQLite's code.
int register_row_sums(sqlite3* connection);

}  // namespace phub::server
