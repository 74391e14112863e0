#include "worker/nn/plugin.h"

#include <dlfcn.h>

#include <algorithm>

namespace phub::nn {
namespace {

std::vector<std::filesystem::path> candidates(const PluginPlaces& places) {
  if (!places.file.empty()) return {places.file};
  std::vector<std::filesystem::path> files;
  if (!places.folder.empty()) {
    files = {places.folder / places.name, places.folder.parent_path() / "lib" / places.name};
  }
  files.emplace_back(places.name);
  return files;
}

Result<const Plugin*> open(const std::filesystem::path& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(Code::kNotFound, dlerror());
  const auto entry = reinterpret_cast<PluginEntry*>(dlsym(library, kPluginEntry));
  if (entry == nullptr) {
    return Status(Code::kFailedPrecondition,
                  file.string() + " is no plug-in of phub: it has no function " + kPluginEntry);
  }
  const Plugin* plugin = entry();
  if (plugin->abi != plugin_abi()) {
    return Status(Code::kFailedPrecondition,
                  file.string() +
                      " was built for another phub-worker: take the one that was built "
                      "with this one. It is of \"" +
                      plugin->abi + "\", this one of \"" + plugin_abi() + '"');
  }
  return plugin;
}

bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

}  // namespace

Status check_devices(const DeviceExecutorOptions& options) {
  const std::vector<std::uint32_t>& devices = options.devices;
  if (devices.empty()) return {};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (std::count(devices.begin(), devices.end(), devices[i]) == 1) continue;
    return {Code::kInvalidArgument, "train.devices: " + std::to_string(devices[i]) +
                                        " is listed twice: name each GPU once"};
  }
  if (options.batch % devices.size() == 0) return {};
  return {Code::kInvalidArgument,
          "train.batch: " + std::to_string(options.batch) + " images cannot be divided evenly by " +
              std::to_string(devices.size()) +
              " GPUs (train.devices): choose a multiple of that, or other devices"};
}

Result<const Plugin*> load_plugin(const PluginPlaces& places) {
  std::string tried;
  for (const std::filesystem::path& file : candidates(places)) {
    if (file.is_absolute() && !std::filesystem::exists(file)) {
      tried += "\n  " + file.string() + ": not there";
      continue;
    }
    auto plugin = open(file);
    if (plugin || plugin.error().code() != Code::kNotFound) return plugin;
    tried += "\n  " + plugin.error().message();
  }
  const std::string no_driver =
      has_driver() ? ""
                   : "this machine has no NVIDIA driver (libcuda.so.1), and so no GPU for the "
                     "backend cuda: use --backend onednn (train.backend: \"onednn\"). For a GPU "
                     "install its driver; then ";
  return Status(Code::kNotFound, no_driver + "the plug-in " + places.name +
                                     " was not found: build it (it is built where nvcc and cuDNN's "
                                     "headers are) and put it beside phub-worker, or name it in "
                                     "PHUB_CUDA_PLUGIN. Tried:" +
                                     tried);
}

}  // namespace phub::nn
