// Network descriptions: textproto <-> Graph. The schema and its manual are proto/network.proto.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

struct Description {
  std::string name;
  Graph graph;
};

// Errors: kInvalidArgument (kNotFound for a file that is not there), as
// "FILE:LINE:COLUMN: layer "NAME": FIELD: what is wrong; the cure".
Result<Description> load_network(const std::string& path);

// The same from memory; `file` stands for the file in errors.
Result<Description> parse_network(std::string_view text, const std::string& file);

// What parse_network reads back to the same graph: a line for each layer.
std::string to_textproto(const Graph& graph, std::string_view name);

}  // namespace phub::nn
