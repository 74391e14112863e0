// Which fields of a job contradict each other: one table, asked by whoever wants to refuse a job.
//
// Constants and pure functions; any thread.
#pragma once

#include <span>
#include <string_view>

#include "common/base/status.h"
#include "common/job/spec.h"

namespace phub {

// A way to use a field, such as a rule with one value for each key.
struct Use {
  std::string_view field;  // as `set_field` has it
  std::string_view what;   // for people: "racks", "rule lars or lamb"
  bool (*holds)(const JobSpec& spec);
};

struct Contradiction {
  const Use* used;
  const Use* beside;
  std::string_view reason;
  std::string_view cure;
};

std::span<const Contradiction> contradictions();

// The first row both of whose uses hold; nullptr: the job is none of them.
const Contradiction* first_contradiction(const JobSpec& spec);

// Error: kInvalidArgument, "FIELD: VALUE contradicts FIELD: VALUE: REASON; CURE".
Status check_contradictions(const JobSpec& spec);

}  // namespace phub
