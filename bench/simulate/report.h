// Predictions as a table, as CSV and as JSON.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/simulate/schedule.h"
#include "bench/simulate/shapes.h"

namespace phub::bench::simulate {

struct Prediction {
  Network network;
  Shape shape = Shape::kRing;
  Policy policy = Policy::kBsp;
  Iteration iteration;
  std::string bound;  // what limits the iteration
};

struct ReportRow {
  const Prediction& prediction;
  double images_per_second;     // of all workers; 0: the trace has no batch
  std::optional<double> error;  // of the prediction, against --measured
};

// One object on one line.
std::string json_line(const ReportRow& row);
// The fields of the JSON objects, in their order, under their names.
std::string csv_of(const std::vector<ReportRow>& rows);
// REQUIRES: rows, all with an error or none, all with images or none.
std::string table_of(const std::vector<ReportRow>& rows);

}  // namespace phub::bench::simulate
