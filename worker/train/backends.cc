#include "worker/train/backends.h"

#include <new>
#include <string>
#include <utility>

#include "worker/nn/network.h"
#include "worker/nn/onednn/backend.h"
#include "worker/nn/reference/backend.h"
#include "worker/train/replica_groups.h"

namespace phub::train {

std::optional<BackendKind> parse_backend_kind(std::string_view word) {
  if (word == "onednn") return BackendKind::kOnednn;
  if (word == "reference") return BackendKind::kReference;
  if (word == "cuda") return BackendKind::kCuda;
  return {};
}

namespace {

// Where memory runs out there is one thing to do, whoever noticed.
Status no_memory(const ExecutorOptions& options) {
  return {Code::kResourceExhausted,
          "train.batch is " + std::to_string(options.batch) +
              ": there is no memory for the activations of so many images; lower it "
              "(`phub-worker model --batch` counts them)"};
}

Result<std::unique_ptr<nn::Executor>> make_network(const nn::Graph& graph,
                                                   const ExecutorOptions& options) {
  const nn::BackendOptions backend_options{
      .compute_type = options.compute_type, .threads = options.threads, .kernels = options.kernels};
  PHUB_ASSIGN_OR_RETURN(auto backend, options.backend == BackendKind::kReference
                                          ? nn::make_reference_backend(backend_options)
                                          : nn::make_onednn_backend(backend_options));
  PHUB_ASSIGN_OR_RETURN(auto network,
                        nn::Network::create(graph, std::move(backend), {.batch = options.batch}));
  return std::unique_ptr<nn::Executor>(std::move(network));
}

}  // namespace

Result<std::unique_ptr<nn::Executor>> make_executor(const nn::Graph& graph,
                                                    const ExecutorOptions& options) {
  if (options.backend == BackendKind::kCuda) {
    PHUB_ASSIGN_OR_RETURN(const nn::Plugin* plugin, nn::load_plugin(options.cuda.plugin));
    nn::DeviceExecutorOptions executor = options.cuda.executor;
    executor.batch = options.batch;
    executor.compute_type = options.compute_type;
    PHUB_RETURN_IF_ERROR(nn::check_devices(executor));
    return plugin->make_executor(graph, executor);
  }
  if (options.groups > 1) return make_replica_groups(graph, options);
  try {
    auto network = make_network(graph, options);
    const bool is_full = !network && network.error().code() == Code::kResourceExhausted;
    return is_full ? no_memory(options) : std::move(network);
  } catch (const std::bad_alloc&) {
    return no_memory(options);
  }
}

}  // namespace phub::train
