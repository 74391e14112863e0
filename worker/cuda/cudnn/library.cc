#include "worker/cuda/cudnn/library.h"

#include <dlfcn.h>

#include <array>
#include <string_view>

namespace phub::nn::cuda {
namespace {

constexpr const char* kFile = "libcudnn.so.9";
constexpr std::size_t kOldestVersion = 90800;

}  // namespace

CudnnLibrary::~CudnnLibrary() {
  // Never closed: its sub-libraries register handlers for the end of the process.
}

Result<std::unique_ptr<CudnnLibrary>> CudnnLibrary::open(
    const std::vector<std::filesystem::path>& folders) {
  std::unique_ptr<CudnnLibrary> library(new CudnnLibrary());
  const LibrarySearch search{
      .file = kFile,
      .in_wheels = "nvidia/cudnn/lib",
      .toolkits = {"/usr/local/cuda/lib64", "/usr/local/cudnn/lib"},
      .missing =
          "cuDNN 9 was not found: install it (NVIDIA's package, or the Python wheel "
          "nvidia-cudnn-cu13) and name its folder in PHUB_CUDA_PATH."};
  PHUB_RETURN_IF_ERROR(load_first(
      search, folders, [&](const std::filesystem::path& file) { return library->load(file); }));
  return library;
}

Status CudnnLibrary::load(const std::filesystem::path& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {Code::kNotFound, dlerror()};
  functions_ = {Symbols(handle)};
  if (!functions_.symbols.missing().empty()) {
    return {Code::kFailedPrecondition, file.string() + " is no cuDNN 9: functions are missing"};
  }
  if (version() < kOldestVersion || version() >= 100000) {
    return {Code::kFailedPrecondition, file.string() + " is cuDNN " + std::to_string(version()) +
                                           ": versions from 9.8 and below 10 are understood"};
  }
  path_ = file.string();
  return {};
}

Status CudnnLibrary::status(cudnnStatus_t code, std::string_view what) const {
  if (code == CUDNN_STATUS_SUCCESS) [[likely]]
    return {};
  std::array<char, 1024> detail = {};
  functions_.get_last_error_string(detail.data(), detail.size());
  const bool not_supported = CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED;
  return {not_supported ? Code::kNotFound : Code::kInternal,
          std::string(what) + ": " + functions_.get_error_string(code) + ": " + detail.data()};
}

}  // namespace phub::nn::cuda
