// Which shape a job of several racks would take, and what each would take of its time.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/plan/rack_trees.h"
#include "server/phubctl/planner/probed_links.h"

namespace phub::phubctl {

// A job, as far as its exchange goes.
struct PlannedJob {
  std::vector<RackSpec> racks;
  double bytes = 0.0;                      // of all its keys, in the wire type
  std::vector<double> key_bytes = {};      // of each; empty: not known
  std::uint32_t bytes_an_element = 4;      // of the wire type
  std::uint32_t sum_bytes_an_element = 4;  // of racks' sums
  std::uint32_t chunk_bytes = 32 * 1024;
  double rack_density = 0.0;                // of rack_compress; 0: racks push whole sums
  std::uint64_t rack_dense_below = 4096;    // keys with fewer elements go whole
  bool may_compress = false;                // nothing that is known of the job contradicts it
  bool is_voted = false;                    // votes go to all racks above: shape `spread` only
  std::optional<double> hybrid_bytes = {};  // the threshold that a job of shape `hybrid` has
};

struct Alternative {
  std::string shape;  // "spread", "chain", "multicolour", "hybrid", "tree", "nested", "flat"
  double seconds = 0.0;
  double small_seconds = 0.0;  // of a small key of a chunk alone: how soon the next forward begins
  double latency_seconds = 0.0;  // of them
  std::string bound;             // what binds the rest
  std::string obstacle;          // why the job cannot have it; empty: it can
};

// Which keys go which way with shape `hybrid`.
struct KeyGroups {
  // The largest key, in bytes, that is not later as with spread than as with chain, each alone; or
  // the job's own threshold. Infinite: none is. Keys that share chunks are small in any case.
  double threshold = 0.0;
  std::size_t small_keys = 0;
  std::size_t large_keys = 0;
  double small_bytes = 0.0;
  double large_bytes = 0.0;
  double seconds = 0.0;  // of a key of the threshold, alone
};

// The job with rack_compress beside the job without, each in its fastest shape.
struct CompressedRacks {
  double density = 0.0;  // the job's; of a job without, kOfferedDensity
  double seconds = 0.0;
  double whole_seconds = 0.0;
  bool is_faster() const;  // by as much as predictions are to be trusted (common/cost)
};
inline constexpr double kOfferedDensity = 0.01;  // rack_compress' own default

struct Choice {
  std::vector<Alternative> alternatives;  // shapes in the order of RackShape, then flat
  // The fastest that the job can have; of those within 1 % that whose small keys are there first.
  RackShape shape = RackShape::kSpread;
  KeyGroups groups;
  // Of that shape: the job's chunk if it is within 1 % of the fastest, else the smallest that is.
  std::uint32_t chunk_bytes = 0;
  double chunk_seconds = 0.0;
  std::optional<CompressedRacks> compressed;  // nothing: the job cannot have it
  std::vector<std::string> assumptions;

  const Alternative& taken() const { return alternatives[static_cast<std::size_t>(shape)]; }
  const Alternative& flat() const { return alternatives.back(); }
};

// Keys up to so many bytes share chunks (common/plan/plan.h).
inline double fused_key_bytes(std::uint32_t chunk_bytes) { return chunk_bytes / 4; }

// Errors: network_of's; kInvalidArgument for no bytes.
Result<Choice> choose_shape(const control::Probe& probe, const PlannedJob& job,
                            const NicRates& rates);

// For people: a table, then sentences; `has`: the shape that the job has, or "" before it is made.
std::string choice_text(const Choice& choice, const PlannedJob& job, const std::string& has);
// One object on one line. `probed`: the probe's date.
std::string choice_json(const Choice& choice, const PlannedJob& job, const std::string& has,
                        std::int64_t probed);

}  // namespace phub::phubctl
