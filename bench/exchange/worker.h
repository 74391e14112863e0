// The process of one PHub worker of the bench, which has one PhubTask. The hidden
// subcommand "exchange-worker". Main thread of its process.
#pragma once

#include "bench/base/worker_loop.h"
#include "bench/processes/work.h"

namespace phub::bench {

Status run_exchange_worker(const WorkerHello& hello, const ServedWork& served);

}  // namespace phub::bench
