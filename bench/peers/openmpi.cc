// phub-bench-openmpi: MPI_Allreduce in place, one rank for each worker; started through mpirun.
#include <fmt/format.h>
#include <mpi.h>

#include <limits>

#include "bench/peers/peer.h"

namespace {

class OpenMpiTask final : public phub::bench::PeerTask {
 public:
  using PeerTask::PeerTask;

  phub::Status iterate() override {
    const int code = MPI_Allreduce(MPI_IN_PLACE, values().data(), static_cast<int>(values().size()),
                                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) return {};
    return {phub::Code::kUnavailable, fmt::format("MPI_Allreduce failed with code {}", code)};
  }
};

}  // namespace

int main(int argc, char** argv) {
  using namespace phub::bench;
  end_with_parent();
  PeerOptions options = parse_peer_options(argc, argv);
  if (options.elements > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    return exit_code_of(
        tell(options.hello, {phub::Code::kInvalidArgument, "MPI counts elements in an int"}));
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  options.hello.index = static_cast<std::uint32_t>(rank);
  options.hello.note = fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                   OMPI_RELEASE_VERSION);
  phub::Status ended;
  {
    OpenMpiTask task(options);
    ended = serve(options.hello, task);
  }
  MPI_Finalize();
  return exit_code_of(ended);
}
