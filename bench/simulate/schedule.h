// One iteration of synchronous SGD, after the DAG model of Shi et al. 2018 (arXiv 1805.03812): a
// layer's backward, then the exchange of its gradients over one network, then its forward of the
// next iteration; the next batch is read meanwhile. All workers are alike, so one of them stands
// for all.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/simulate/shapes.h"
#include "bench/simulate/trace.h"

namespace phub::bench::simulate {

enum class Policy : std::uint8_t {
  kBsp,       // layer by layer, after the whole backward
  kPacked,    // as one message, after the whole backward
  kWfbp,      // wait-free backpropagation: each layer when its backward is done
  kMerged,    // MG-WFBP: the same, with neighbours merged by the rule below
  kPriority,  // what the next forward needs first; it waits layer by layer, not for all
};

// In the order of the enumeration.
inline constexpr std::string_view kPolicyNames[] = {"bsp", "packed", "wfbp", "merged", "priority"};
std::string_view name_of(Policy policy);

// The gradients of layers `first` to `last` (in forward order), exchanged at once.
struct Message {
  std::size_t first = 0;
  std::size_t last = 0;
  double bytes = 0.0;
  double ready = 0.0;  // seconds since backward began, as all below
  double start = 0.0;
  double sent = 0.0;  // the network is free again
  double done = 0.0;
};

enum class Track : std::uint8_t { kInput, kCompute, kExchange };

// A bar of the picture.
struct Bar {
  Track track;
  const char* kind;  // "input", "backward", "forward", "loss", "update", "exchange", "reply"
  std::string name;
  double start;
  double seconds;
};

struct Iteration {
  double seconds = 0.0;
  double compute = 0.0;   // of it: forward, loss, backward and the workers' update
  double exposed = 0.0;   // the exchange that nothing hides
  double exchange = 0.0;  // hidden or not: of all messages, if all were ready
  bool waits_for_input = false;
  std::vector<Message> messages;  // the last layer first
  std::vector<Bar> bars;          // from the beginning of backward to the end of the next forward
};

// Seconds that the trace does not know.
struct InputModel {
  double input = 0.0;     // reading a batch
  double transfer = 0.0;  // of it to the device
  bool is_prefetched = true;
};

// REQUIRES: a trace with comm for kMeasured, which has no kPacked and kMerged.
Iteration predict(const LayerTrace& trace, const Exchange& exchange, Policy policy,
                  const InputModel& input);

// The merge rule of MG-WFBP (Shi et al. 2019, arXiv 1811.11141, as the authors' code has it), from
// the last layer on: the message of layer l is merged into that of l-1 if the latter is ready
// before the former is sent, and the former either could not start by then or waits less than alpha
// for it.
std::vector<Message> merged(std::vector<Message> messages, const Exchange& exchange);

}  // namespace phub::bench::simulate
