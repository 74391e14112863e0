// Backends that come as shared libraries, found when they are asked for: `phub-worker` links
// nothing of CUDA and runs without it; libphub_cuda.so brings the backend `cuda`.
//
// A plug-in has one C function, phub_plugin, which gives a table. What is in it is C++, so both
// sides are built from the same sources by the same compiler: the table begins with a string that
// says so, and is not read further where that differs. A plug-in is never unloaded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "worker/nn/executor.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

// What lies between convolutions: in their kernels, or in kernels of its own.
enum class Fusion : std::uint8_t {
  kTuned,    // each block as it was measured (tune), else in their kernels
  kFused,    // in their kernels wherever there is one
  kUnfused,  // a kernel for each layer
};

struct DeviceExecutorOptions {
  std::uint32_t batch = 1;  // of all devices together
  std::uint32_t device = 0;
  std::vector<std::uint32_t> devices{};  // instead: several, which compute a part of the batch each
  std::chrono::milliseconds timeout{30'000};  // of a wait for the devices
  DataType compute_type = DataType::kFloat16;
  bool capture = true;  // passes as CUDA graphs
  Fusion fusion = Fusion::kTuned;
  bool tune = false;  // measures engines, and blocks where kTuned, that the cache does not know
  // Threads that plan what `tune` measures; 0: one for each CPU, at most as many as it plans at
  // once.
  std::uint32_t plan_threads = 0;
  std::filesystem::path engine_cache{};            // empty: nothing is remembered
  std::vector<std::filesystem::path> libraries{};  // folders to look for cuDNN and NCCL in
  // Sentences for the user, and how many of all graphs have been looked at.
  std::function<void(std::string_view)> note = [](std::string_view) {};
  std::function<void(std::size_t, std::size_t)> progress = [](std::size_t, std::size_t) {};
};

// Errors: kInvalidArgument names train.devices or train.batch.
Status check_devices(const DeviceExecutorOptions& options);

struct Plugin {
  const char* abi = nullptr;
  Result<std::unique_ptr<Executor>> (*make_executor)(
      const Graph& graph, const DeviceExecutorOptions& options) = nullptr;
};
using PluginEntry = const Plugin*();
inline constexpr char kPluginEntry[] = "phub_plugin";

// What both sides must agree on. kInterface goes up with each change of what crosses the border
// that sizes do not show.
inline std::string plugin_abi() {
  constexpr int kInterface = 8;
  return std::string("phub ") + kVersion + ", interface " + std::to_string(kInterface) +
         ", compiler " + __VERSION__ + ", sizes " + std::to_string(sizeof(Graph)) + ' ' +
         std::to_string(sizeof(Layer)) + ' ' + std::to_string(sizeof(ParameterSpec)) + ' ' +
         std::to_string(sizeof(DeviceExecutorOptions)) + ' ' + std::to_string(sizeof(OwnRule)) +
         ' ' + std::to_string(sizeof(Status));
}

struct PluginPlaces {
  std::string name = "libphub_cuda.so";
  std::filesystem::path file{};    // named by the user: then nothing else is tried
  std::filesystem::path folder{};  // of the program: there, then in ../lib beside it
};

// Looks there, then where the dynamic linker looks. Errors: kNotFound lists what was tried, with
// the cure; kFailedPrecondition: one that was built for another program.
Result<const Plugin*> load_plugin(const PluginPlaces& places);

}  // namespace phub::nn
