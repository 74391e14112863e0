#include "bench/simulate/trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <numeric>

#include "common/base/whole_file.h"

namespace phub::bench::simulate {
namespace {

double sum_of(const std::vector<TraceLayer>& layers, double TraceLayer::*member) {
  return std::accumulate(
      layers.begin(), layers.end(), 0.0,
      [member](double sum, const TraceLayer& layer) { return sum + layer.*member; });
}

}  // namespace

double LayerTrace::forward() const { return sum_of(layers, &TraceLayer::forward); }
double LayerTrace::backward() const { return sum_of(layers, &TraceLayer::backward); }
double LayerTrace::update() const { return sum_of(layers, &TraceLayer::update); }
double LayerTrace::bytes() const { return sum_of(layers, &TraceLayer::bytes); }

Result<std::string> read_whole(const std::string& path) {
  PHUB_RETURN_IF_ERROR(check_readable_to_end(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_status(path, Code::kInvalidArgument);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<LayerTrace> parse_trace(std::string_view text, const std::string& name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return Status(Code::kInvalidArgument, name + ": is empty; a trace of layers is wanted");
  }
  PHUB_ASSIGN_OR_RETURN(LayerTrace trace, text[first] == '{' ? parse_json_trace(text, name)
                                                             : parse_text_trace(text, name));
  if (trace.bytes() <= 0.0) {
    return Status(Code::kInvalidArgument,
                  name +
                      ": no layer has gradients, so nothing is exchanged; is it the trace of a "
                      "training step?");
  }
  if (trace.bytes() > kMostBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: the layers have {:g} bytes together; at most {:g} can be told",
                              name, trace.bytes(), kMostBytes));
  }
  constexpr double kLeastSeconds = 1e-9;
  if (trace.forward() + trace.backward() < kLeastSeconds) {
    return Status(Code::kInvalidArgument,
                  name + ": the layers' forward and backward take no time; was it measured?");
  }
  return trace;
}

Result<LayerTrace> read_trace(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_whole(path));
  return parse_trace(text, path);
}

}  // namespace phub::bench::simulate
