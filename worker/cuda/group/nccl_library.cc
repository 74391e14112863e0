#include "worker/cuda/group/nccl_library.h"

#include <dlfcn.h>

namespace phub::nn::cuda {
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr int kOldestVersion = 21800;  // communicators that do not block, as a whole
constexpr int kNextMajor = 30000;

std::string version_text(int version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

}  // namespace

NcclLibrary::~NcclLibrary() {
  // Never closed: its threads may still be on their way out.
}

Result<std::unique_ptr<NcclLibrary>> NcclLibrary::open(
    const std::vector<std::filesystem::path>& folders) {
  std::unique_ptr<NcclLibrary> library(new NcclLibrary());
  const LibrarySearch search{
      .file = kFile,
      .in_wheels = "nvidia/nccl/lib",
      .toolkits = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/nccl/lib"},
      .missing =
          "train.devices: several GPUs need NCCL 2, which was not found: install it (NVIDIA's "
          "package libnccl2, or the Python wheel nvidia-nccl-cu13) and name its folder in "
          "PHUB_CUDA_PATH, or train on one GPU."};
  PHUB_RETURN_IF_ERROR(load_first(
      search, folders, [&](const std::filesystem::path& file) { return library->load(file); }));
  return library;
}

Status NcclLibrary::load(const std::filesystem::path& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {Code::kNotFound, dlerror()};
  functions_ = {Symbols(handle)};
  const NcclFunctions& f = functions_;
  const bool has_version =
      f.get_version != nullptr && f.get_version(&version_) == ncclSuccess && version_ > 0;
  const std::string what =
      file.string() + " is NCCL " + (has_version ? version_text(version_) : "of no known version");
  if (!f.symbols.missing().empty()) {
    return {Code::kFailedPrecondition, what + " and has no " + f.symbols.missing() +
                                           ": install NCCL from 2.18 on and below 3"};
  }
  if (version_ < kOldestVersion || version_ >= kNextMajor) {
    return {Code::kFailedPrecondition, what + ": versions from 2.18 and below 3 are understood"};
  }
  path_ = file.string();
  return {};
}

Status NcclLibrary::status(ncclResult_t code, const std::string& what,
                           ncclComm_t communicator) const {
  if (code == ncclSuccess || code == ncclInProgress) [[likely]]
    return {};
  return {Code::kInternal, what + ": " + functions_.get_error_string(code) + ": " +
                               functions_.get_last_error(communicator) +
                               " (NCCL_DEBUG=INFO tells more)"};
}

}  // namespace phub::nn::cuda
