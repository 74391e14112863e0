// The job table's calls that answer later, for tests: as futures, or waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>

#include "server/jobs/table.h"

namespace phub::testing {

inline server::Answer answer_of(std::future<Status>& future) {
  const auto promise = std::make_shared<std::promise<Status>>();
  future = promise->get_future();
  return [promise](const Status& status) { promise->set_value(status); };
}

inline std::future<Status> start_later(server::JobTable& table, const server::Identity& identity,
                                       std::chrono::milliseconds timeout) {
  std::future<Status> future;
  table.start(identity, timeout, answer_of(future));
  return future;
}

inline std::future<Status> ready_later(server::JobTable& table, const server::Identity& identity,
                                       const server::Topology& topology, std::uint64_t plan_hash) {
  std::future<Status> future;
  table.ready(identity, topology, plan_hash, answer_of(future));
  return future;
}

inline Status ready_now(server::JobTable& table, const server::Identity& identity,
                        const server::Topology& topology, std::uint64_t plan_hash) {
  return ready_later(table, identity, topology, plan_hash).get();
}

inline bool is_answered(const std::future<Status>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace phub::testing
