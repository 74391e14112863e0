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
  const auto& functions = (*library)->functions();
  int version = 0;
  const bool answers =
      functions.get_version(&version) == ncclSuccess && version == (*library)->version();
  const bool speaks = functions.get_error_string(ncclInvalidArgument) != nullptr;
  std::printf("NCCL %d from %s\n", version, (*library)->path().c_str());
  return answers && speaks && version >= 21800 ? 0 : 1;
}
