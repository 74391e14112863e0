// Deployments side by side: throughput, cost, throughput for 1000 dollars.
//
// Values and pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/dollars/bill.h"
#include "bench/dollars/throughput.h"
#include "common/base/status.h"

namespace phub::bench {

// What a throughput is. Every figure that is shown says it.
enum class Basis {
  kMeasured,
  kPredicted,
  kExchangeMeasured,  // predicted from a measured exchange
  kPublished,         // of others
};
std::string_view name_of(Basis basis);

struct PricedRow {
  std::string deployment;
  Basis basis = Basis::kPredicted;
  std::string source;               // of what was measured or published
  double samples_per_second = 0.0;  // 0: published for 1000 dollars only
  double seconds = 0.0;             // of an iteration, where predicted; else 0
  std::string bound;                // what bounds it, where predicted
  Bill bill;                        // empty for what was published
  double per_1000_dollars = 0.0;    // samples a second
  double ratio = 0.0;               // of it, to the first row's
};

// A row for each deployment. REQUIRES: a checked file.
// Errors (kInvalidArgument): a deployment that costs nothing, or takes no time.
Result<std::vector<PricedRow>> compare(const PriceFile& prices);

}  // namespace phub::bench
