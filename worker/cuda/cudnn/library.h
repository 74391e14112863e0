// libcudnn, found and opened at run time: its functions by name.
//
// It is not linked: then one plug-in finds cuDNN wherever it was installed (the system's folders, a
// CUDA toolkit, the wheels of a Python environment), and where it is not, the error says where it
// was looked for. Owned by the backend; outlives every descriptor and handle. Any thread.
#pragma once

#include <cudnn_graph.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/runtime/library_search.h"

namespace phub::nn::cuda {

struct CudnnFunctions {
  Symbols symbols{nullptr};
  decltype(&cudnnGetVersion) get_version = symbols["cudnnGetVersion"];
  decltype(&cudnnGetErrorString) get_error_string = symbols["cudnnGetErrorString"];
  decltype(&cudnnGetLastErrorString) get_last_error_string = symbols["cudnnGetLastErrorString"];
  decltype(&cudnnCreate) create = symbols["cudnnCreate"];
  decltype(&cudnnDestroy) destroy = symbols["cudnnDestroy"];
  decltype(&cudnnSetStream) set_stream = symbols["cudnnSetStream"];
  decltype(&cudnnBackendCreateDescriptor) create_descriptor =
      symbols["cudnnBackendCreateDescriptor"];
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor =
      symbols["cudnnBackendDestroyDescriptor"];
  decltype(&cudnnBackendSetAttribute) set_attribute = symbols["cudnnBackendSetAttribute"];
  decltype(&cudnnBackendGetAttribute) get_attribute = symbols["cudnnBackendGetAttribute"];
  decltype(&cudnnBackendFinalize) finalize = symbols["cudnnBackendFinalize"];
  decltype(&cudnnBackendExecute) execute = symbols["cudnnBackendExecute"];
};

class CudnnLibrary {
 public:
  // Looks in `folders` first, then where the dynamic linker looks, then in the folders of CUDA
  // toolkits. Errors: kNotFound lists what was tried; kFailedPrecondition: another major version
  // than 9, or older than 9.8 (which cannot plan without a device).
  static Result<std::unique_ptr<CudnnLibrary>> open(
      const std::vector<std::filesystem::path>& folders);

  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;
  ~CudnnLibrary();

  const CudnnFunctions* operator->() const { return &functions_; }
  std::size_t version() const { return functions_.get_version(); }  // 91900 is 9.19.0
  const std::string& path() const { return path_; }

  // OK, or kInternal: "what: status: cuDNN's own words". For a graph that no engine takes:
  // kNotFound.
  Status status(cudnnStatus_t code, std::string_view what) const;

 private:
  CudnnLibrary() = default;
  Status load(const std::filesystem::path& file);

  std::string path_;
  CudnnFunctions functions_;
};

}  // namespace phub::nn::cuda
