// Price files (proto/prices.proto): read, and checked for sense.
//
// Pure functions; any thread. Errors are kInvalidArgument and read "FILE:LINE:COLUMN: what is
// wrong; the cure".
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/prices.pb.h"

namespace phub::bench {

Result<PriceFile> load_price_file(const std::string& path);
// The same from memory; `name` stands for the file in errors.
Result<PriceFile> parse_price_file(std::string_view text, const std::string& name);

// REQUIRES: `prices` was checked and has it.
const PartPrice& part_of(const PriceFile& prices, const std::string& name);

// Whether its parts are known; else it is a published figure.
inline bool is_priced(const Deployment& deployment) { return !deployment.has_published(); }

}  // namespace phub::bench
