#include "worker/nn/onednn/team.h"

// GNU OpenMP's entry points, which libdnnl uses: what a compiler makes of `#pragma omp parallel`.
// Called by name, since clang's -fopenmp is for another OpenMP.
extern "C" {
void GOMP_parallel(void (*function)(void*), void* argument, unsigned threads, unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
}

namespace phub::nn::onednn {
namespace {

struct TeamTask {
  void (*function)(void*, TeamShare);
  void* argument;
};

void run_task(void* task) {
  const auto& [function, argument] = *static_cast<const TeamTask*>(task);
  function(argument, {.thread = static_cast<unsigned>(omp_get_thread_num()),
                      .threads = static_cast<unsigned>(omp_get_num_threads())});
}

}  // namespace

void Team::run_on_all(void (*function)(void*, TeamShare), void* argument) const {
  TeamTask task{function, argument};
  GOMP_parallel(&run_task, &task, threads_, 0);
}

}  // namespace phub::nn::onednn
