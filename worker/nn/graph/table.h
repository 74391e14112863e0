// A network as a table for people and as JSON for programs. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "worker/nn/graph/graph.h"
#include "worker/nn/graph/segments.h"

namespace phub::nn {

// A line for each layer (kind, output's shape, parameters, operations, memory of its output for
// `batch` images in fp32), then totals. REQUIRES: batch > 0.
std::string network_table(const Graph& graph, std::string_view name, std::uint32_t batch);

// The same as one JSON object, with the names and shapes of all parameters.
std::string network_json(const Graph& graph, std::string_view name, std::uint32_t batch);

// A line for each key.
std::string segment_table_text(const SegmentTable& table);
std::string segment_table_json(const SegmentTable& table);

}  // namespace phub::nn
