#include "worker/train/exchange/gpu_direct.h"

#include <string>
#include <utility>
#include <vector>

#include "worker/train/exchange/initialise.h"

namespace phub::train {
namespace {

struct Direct {
  ExportedMemoryPointer memory;
  ArrayLayout layout;
  std::string how;
};

// Both sides agree, or nothing has changed.
Result<Direct> agree(nn::Executor& network, GradientExchange& exchange, bool sums) {
  if (sums) {
    return Status(Code::kFailedPrecondition,
                  "train.accumulate adds gradients up on the host before they are pushed");
  }
  if (!network.binds(exchange.wire_type())) {
    return Status(Code::kFailedPrecondition,
                  "this backend does not write gradients as they travel");
  }
  PHUB_RETURN_IF_ERROR(exchange.reaches_gpus());
  exchange.use_wire_arrays();
  Direct direct{.memory = nullptr, .layout = exchange.layout(), .how = {}};
  PHUB_ASSIGN_OR_RETURN(direct.memory, network.export_gradients(direct.layout.bytes));
  PHUB_ASSIGN_OR_RETURN(direct.how, exchange.push_from(direct.memory));
  return direct;
}

Status bind_to(nn::Executor& network, GradientExchange& exchange, const Direct& direct) {
  std::vector<nn::TypedBinding> bindings;
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const auto on_host = exchange.wire_gradient(key);
    bindings.push_back({exchange.wire_parameter(key),
                        direct.memory->bytes.subspan(direct.layout.offsets[key], on_host.size())});
  }
  return network.bind_typed(
      {.type = exchange.wire_type(), .keys = bindings, .exported = direct.memory});
}

}  // namespace

std::optional<GpuDirect> parse_gpu_direct(std::string_view word) {
  if (word == "off") return GpuDirect::kOff;
  if (word == "auto") return GpuDirect::kAuto;
  if (word == "required") return GpuDirect::kRequired;
  return {};
}

Status bind_direct(nn::Executor& network, GradientExchange& exchange,
                   const DirectOptions& options) {
  if (options.wanted == GpuDirect::kOff) return bind(network, exchange, options.sums);
  const auto direct = agree(network, exchange, options.sums);
  if (direct) {
    options.note("gradients go from the GPU's memory to the network: " + direct->how);
    return bind_to(network, exchange, *direct);
  }
  if (options.wanted == GpuDirect::kRequired) {
    return {
        Code::kFailedPrecondition,
        "train.gpu_direct is \"required\", and gradients cannot go from the GPU's memory to the "
        "network: " +
            direct.error().message() + "; or set it to \"auto\""};
  }
  if (exchange.transport() != "local") {
    options.note("gradients go through the host's memory: " + direct.error().message());
  }
  return bind(network, exchange, options.sums);
}

}  // namespace phub::train
