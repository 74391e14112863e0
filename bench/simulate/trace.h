// What a simulation reads: the layers of one training step, in forward order, with their times on
// one worker and the bytes of their gradients.
//
// Values and pure functions; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace phub::bench::simulate {

// What no trace has more of: a layer's bytes, a time in seconds, all layers' bytes, and images or
// steps. Sums and products of these stay far from infinity.
inline constexpr double kMostLayerBytes = 1e15;
inline constexpr double kMostSeconds = 1e9;
inline constexpr double kMostBytes = 1e18;
inline constexpr double kMostCount = 1e9;

// Seconds on one worker; several iterations of a file: their median.
struct TraceLayer {
  std::string name;
  double forward = 0.0;
  double backward = 0.0;
  double comm = 0.0;    // of its gradients' exchange, as the trace's system took it
  double update = 0.0;  // by the worker's own optimizer
  double bytes = 0.0;   // of its gradients; 0: it has no parameters
};

struct LayerTrace {
  std::string name;  // of the model, or the file
  std::vector<TraceLayer> layers;
  double input = 0.0;       // seconds to read a batch
  double loss = 0.0;        // seconds between forward and backward
  std::uint32_t batch = 0;  // images of a worker; 0: the trace does not say
  std::size_t iterations = 1;
  bool has_forward = true;
  bool has_comm = false;

  double forward() const;
  double backward() const;
  double update() const;
  double bytes() const;
};

// A file of `phub-worker profile --json` or `--trace`, or text in one of the two public layouts
// (see README.md). Error: kInvalidArgument; of text it begins with FILE:LINE:COLUMN.
Result<LayerTrace> read_trace(const std::string& path);

// The same of a text; `name` is what errors call it.
Result<LayerTrace> parse_trace(std::string_view text, const std::string& name);

// The whole file. Error: kInvalidArgument.
Result<std::string> read_whole(const std::string& path);

// The parts of parse_trace: ours, and the public layouts.
Result<LayerTrace> parse_json_trace(std::string_view text, const std::string& name);
Result<LayerTrace> parse_text_trace(std::string_view text, const std::string& name);

}  // namespace phub::bench::simulate
