// Whether a database is what it was when it was written.
//
// Functions; the database's thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/state/database.h"

namespace phub::server {

// That the file is whole as SQLite sees it, and has the tables that `migrations` make and no
// others. Errors: kDataLoss says what is wrong.
Status check_structure(Database& database, std::span<const std::string_view> migrations);

// That constraints, references and `checks` hold. Errors: kDataLoss names the first fault.
Status check_contents(Database& database, std::span<const std::string_view> checks);

// What is said of such a file, with the cure.
Status damaged_file(const std::string& path, std::string_view what);

}  // namespace phub::server
