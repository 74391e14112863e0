// `phub-bench dollars`: throughput per dollar, from a price file.
//
// Main thread.
#pragma once

#include <string>
#include <vector>

#include "bench/dollars/report.h"

namespace phub::bench {

struct DollarsOptions {
  std::string prices;                 // path
  std::vector<std::string> measured;  // as set_measured takes them
  std::vector<std::string> curves;    // axes
  CurveRange range;                   // of the curve, where there is one; its axis is not used
  double sensitivity_percent = 0.0;   // 0: none
  std::string csv;                    // paths; empty: none
  std::string svg;
  bool json = false;
};

// All that is asked for, before anything is written.
Result<DollarsResult> dollars_of(const DollarsOptions& options);

// Writes the files, then prints.
Status run_dollars(const DollarsOptions& options);

}  // namespace phub::bench
