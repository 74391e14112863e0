// Connections of a core that end: of peers that died, or that sent what no client sends.
//
// Belongs to the core's thread; next_event and counters are for other threads. Allocates when it is
// made.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string_view>

#include "common/base/spsc_ring.h"
#include "server/core/drops.h"
#include "server/core/due_work.h"

namespace phub::server {

struct LossEvent {
  std::uint64_t job_id = 0;
  std::uint32_t worker = 0;
  std::string_view reason;  // a literal
  bool goes_on = false;     // the job has a quorum without this worker
};

class Losses {
 public:
  // `on_event` is called after a loss is there to be asked for; may be empty.
  Losses(std::size_t max_connections, DueWork& due, Replies& replies,
         std::function<void()> on_event)
      : due_(due),
        replies_(replies),
        on_event_(std::move(on_event)),
        events_(4 * max_connections) {}

  void count(Drop cause) { drops_.count(cause); }
  // Ends one member's connection, with all of its streams, and counts the cause; kCount: there is
  // none to count. With a quorum, the job goes on if all chunks are initialised and a worker is
  // left. Otherwise its shard stops. Other jobs do not notice.
  void drop(Connection& connection, Drop cause, std::string_view reason);

  const DropCounters& drops() const { return drops_; }
  std::optional<LossEvent> next_event() { return events_.pop(); }  // one consumer

  // Connections that are attached; any thread may read it.
  std::atomic<std::uint32_t> connections{0};

 private:
  void go_on(JobOnCore& job);
  static bool loses_rack(const Connection& connection);
  void go_on_without_rack(Connection& connection, std::string_view reason);

  DueWork& due_;
  Replies& replies_;
  std::function<void()> on_event_;
  DropCounters drops_;
  SpscRing<LossEvent> events_;
};

}  // namespace phub::server
