// libnccl, found and opened at run time when a worker has several GPUs: its functions by name.
//
// As libcudnn (worker/cuda/cudnn/library.h): not linked, so that one GPU needs none. Owned by the
// collectives; any thread.
#pragma once

#include <nccl.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/runtime/library_search.h"

namespace phub::nn::cuda {

struct NcclFunctions {
  Symbols symbols{nullptr};
  decltype(&ncclGetVersion) get_version = symbols["ncclGetVersion"];
  decltype(&ncclGetErrorString) get_error_string = symbols["ncclGetErrorString"];
  decltype(&ncclGetLastError) get_last_error = symbols["ncclGetLastError"];
  decltype(&ncclGetUniqueId) get_unique_id = symbols["ncclGetUniqueId"];
  decltype(&ncclCommInitRankConfig) init_rank_config = symbols["ncclCommInitRankConfig"];
  decltype(&ncclCommGetAsyncError) get_async_error = symbols["ncclCommGetAsyncError"];
  decltype(&ncclCommAbort) abort = symbols["ncclCommAbort"];
  decltype(&ncclGroupStart) group_start = symbols["ncclGroupStart"];
  decltype(&ncclGroupEnd) group_end = symbols["ncclGroupEnd"];
  decltype(&ncclReduceScatter) reduce_scatter = symbols["ncclReduceScatter"];
  decltype(&ncclAllGather) all_gather = symbols["ncclAllGather"];
  decltype(&ncclAllReduce) all_reduce = symbols["ncclAllReduce"];
};

class NcclLibrary {
 public:
  // Looks in `folders` first, then where the dynamic linker looks, then in the folders of CUDA
  // toolkits. Errors: kNotFound lists what was tried; kFailedPrecondition names every function that
  // is missing, or the version where it is older than 2.18 or of another major one than 2.
  static Result<std::unique_ptr<NcclLibrary>> open(
      const std::vector<std::filesystem::path>& folders);

  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;
  ~NcclLibrary();

  const NcclFunctions* operator->() const { return &functions_; }
  int version() const { return version_; }  // 22809 is 2.28.9
  const std::string& path() const { return path_; }

  // OK, also for what is under way; else kInternal: "what: NCCL's words". `communicator`: null, or
  // whose words.
  Status status(ncclResult_t code, const std::string& what, ncclComm_t communicator) const;

 private:
  NcclLibrary() = default;
  Status load(const std::filesystem::path& file);

  int version_ = 0;
  std::string path_;
  NcclFunctions functions_;
};

}  // namespace phub::nn::cuda
