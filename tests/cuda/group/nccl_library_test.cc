// NCCL's library as it is looked for: where there is none, and where there is an old one.
#include "worker/cuda/group/nccl_library.h"

#include <catch2/catch.hpp>

namespace phub::nn::cuda {
namespace {

using Catch::Contains;

TEST_CASE("An NCCL that is too old is refused with its version and all that it lacks") {
  const auto library = NcclLibrary::open({PHUB_OLD_NCCL});
  REQUIRE_FALSE(library);
  CHECK(library.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(library.error().message(),
             Contains(std::string(PHUB_OLD_NCCL)) && Contains("NCCL 2.13.4") &&
                 Contains("ncclCommInitRankConfig") && Contains("ncclReduceScatter") &&
                 Contains("ncclAllGather") && Contains("ncclAllReduce") &&
                 Contains("ncclCommAbort") && !Contains("ncclGetErrorString") && Contains("2.18"));
}

}  // namespace
}  // namespace phub::nn::cuda
