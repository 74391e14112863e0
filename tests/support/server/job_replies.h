// The job table's calls that reply later, for tests: as futures, or waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>

#include "server/jobs/table.h"

namespace phub::testing {

inline server::Reply reply_to(std::future<Status>& future) {
  const auto promise = std::make_shared<std::promise<Status>>();
  future = promise->get_future();
  return [promise](const Status& status) { promise->set_value(status); };
}

inline std::future<Status> start_later(server::JobTable& table, const server::Identity& identity,
                                       std::chrono::milliseconds timeout) {
  std::future<Status> future;
  table.starts.start(identity, timeout, reply_to(future));
  return future;
}

inline std::future<Status> ready_later(server::JobTable& table, const server::Identity& identity,
                                       const server::Topology& topology, std::uint64_t plan_hash) {
  std::future<Status> future;
  table.placement.ready(identity, topology, plan_hash, reply_to(future));
  return future;
}

inline Status ready_now(server::JobTable& table, const server::Identity& identity,
                        const server::Topology& topology, std::uint64_t plan_hash) {
  return ready_later(table, identity, topology, plan_hash).get();
}

inline bool has_reply(const std::future<Status>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace phub::testing
