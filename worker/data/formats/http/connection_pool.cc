#include "worker/data/formats/http/connection_pool.h"

#include <string>
#include <utility>

namespace phub::data {

Result<ConnectionPool::Lease> ConnectionPool::take() {
  const auto patience =
      options_.tries * (options_.connect + options_.stall + options_.retry_after_max);
  std::unique_lock lock(mutex_);
  const bool has_one =
      given_back_.wait_for(lock, patience, [this] { return in_use_ < options_.connections; });
  if (!has_one) {
    return Status(Code::kUnavailable,
                  "all " + std::to_string(options_.connections) + " connections were in use for " +
                      std::to_string(patience.count()) + " ms; lower data.threads");
  }
  ++in_use_;
  if (!idle_.empty()) {
    Lease lease(idle_.back().release(), GiveBack{this});
    idle_.pop_back();
    return lease;
  }
  lock.unlock();
  auto made = HttpConnection::create(options_);
  if (made) return Lease(made->release(), GiveBack{this});
  give_back(nullptr);
  return made.error();
}

void ConnectionPool::give_back(HttpConnection* connection) {
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
    if (connection != nullptr) idle_.emplace_back(connection);
  }
  given_back_.notify_one();
}

}  // namespace phub::data
