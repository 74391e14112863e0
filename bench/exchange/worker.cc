#include "bench/exchange/worker.h"

#include "bench/base/keys.h"
#include "bench/exchange/phub_task.h"

namespace phub::bench {

Status run_exchange_worker(const WorkerHello& hello, const ServedWork& served) {
  auto keys = make_keys(served.work.keys, served.work.elements);
  if (!keys) return tell(hello, keys.error());
  PhubTask task(hello.index, served.work, std::move(*keys));
  if (Status status = task.connect(served.addresses, served.job); !status.ok())
    return tell(hello, status);
  return serve(hello, task);
}

}  // namespace phub::bench
