// The machine's own NCCL: found, opened, and all its functions there. Skipped where there is none.
#include <cstdio>

#include "worker/cuda/group/nccl_library.h"

int main() {
  constexpr int kSkipped = 77;
  const auto library = phub::nn::cuda::NcclLibrary::open({});
  if (!library) {
    const bool is_there = library.error().code() != phub::Code::kNotFound;
    std::printf("%s: %s\n", is_there ? "failed" : "skipped: no NCCL",
                library.error().message().c_str());
    return is_there ? 1 : kSkipped;
  }
  const auto& nccl = **library;
  int version = 0;
  const bool answers = nccl->get_version(&version) == ncclSuccess && version == nccl.version();
  const bool speaks = nccl->get_error_string(ncclInvalidArgument) != nullptr;
  std::printf("NCCL %d from %s\n", version, nccl.path().c_str());
  return answers && speaks && version >= 21800 ? 0 : 1;
}
