// Which shape a job of several racks would take, and what each would take of its time.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/rack_trees.h"
#include "server/phubctl/planner/probed_links.h"

namespace phub::phubctl {

// A job, as far as its exchange goes.
struct PlannedJob {
  std::vector<RackWorkers> racks;
  double bytes = 0.0;                      // of all its keys, in the wire type
  std::uint32_t bytes_an_element = 4;      // of the wire type
  std::uint32_t sum_bytes_an_element = 4;  // of racks' sums
  std::uint32_t chunk_bytes = 32 * 1024;
  bool is_voted = false;  // votes go to all racks above: shape `spread` only
};

struct Alternative {
  std::string shape;  // "spread", "chain", "multicolour", "tree", "flat"
  double seconds = 0.0;
  double latency_seconds = 0.0;  // of them
  std::string bound;             // what binds the rest
  std::string obstacle;          // why the job cannot have it; empty: it can
};

struct Choice {
  std::vector<Alternative> alternatives;  // shapes in the order of RackShape, then flat
  RackShape shape = RackShape::kSpread;   // the fastest that the job can have
  // Of that shape: the job's chunk if it is within 1 % of the fastest, else the smallest that is.
  std::uint32_t chunk_bytes = 0;
  double chunk_seconds = 0.0;
  std::vector<std::string> assumptions;

  const Alternative& taken() const { return alternatives[static_cast<std::size_t>(shape)]; }
  const Alternative& flat() const { return alternatives.back(); }
};

// Errors: network_of's; kInvalidArgument for no bytes.
Result<Choice> choose_shape(const control::Probe& probe, const PlannedJob& job,
                            const NicRates& rates);

// For people: a table, then sentences; `has`: the shape that the job has, or "" before it is made.
std::string choice_text(const Choice& choice, const PlannedJob& job, const std::string& has);
// One object on one line. `probed`: the probe's date.
std::string choice_json(const Choice& choice, const PlannedJob& job, const std::string& has,
                        std::int64_t probed);

}  // namespace phub::phubctl
