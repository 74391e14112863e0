#include "bench/dollars/dollars.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "bench/dollars/measured.h"
#include "bench/dollars/picture.h"
#include "bench/dollars/price_file.h"

namespace phub::bench {
namespace {

constexpr double kPercentOfOne = 100.0;

Status write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return {};
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : errno_status(path + ": cannot be written");
}

}  // namespace

Result<DollarsResult> dollars_of(const DollarsOptions& options) {
  DollarsResult result;
  if (!std::isfinite(options.sensitivity_percent)) {
    return Status(Code::kInvalidArgument, "--sensitivity: write a number of per cent");
  }
  PHUB_ASSIGN_OR_RETURN(result.prices, load_price_file(options.prices));
  for (const std::string& words : options.measured) {
    PHUB_RETURN_IF_ERROR(set_measured(words, result.prices));
  }
  PHUB_ASSIGN_OR_RETURN(result.rows, compare(result.prices));
  for (const std::string& axis : options.curves) {
    CurveRange range = options.range;
    range.axis = axis;
    PHUB_ASSIGN_OR_RETURN(Curve curve, curve_of(result.prices, range));
    result.curves.push_back(std::move(curve));
  }
  result.share = options.sensitivity_percent / kPercentOfOne;
  if (result.share > 0.0) {
    PHUB_ASSIGN_OR_RETURN(result.sensitivities, sensitivities(result.prices, result.share));
  }
  return result;
}

Status run_dollars(const DollarsOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const DollarsResult result, dollars_of(options));
  PHUB_RETURN_IF_ERROR(write_file(options.csv, csv_of(result)));
  PHUB_RETURN_IF_ERROR(write_file(options.svg, svg_of(result)));
  fmt::print("{}", options.json ? json_of(result) : text_of(result));
  std::fflush(stdout);
  return {};
}

}  // namespace phub::bench
