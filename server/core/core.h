// One pinned thread of the data path: receives, aggregates, optimizes and replies with its chunks.
//
// run_once is the system: poll, take what arrived, reply with what is complete. It takes no lock,
// allocates nothing and logs nothing. Cores share nothing with each other, but for the
// norms of jobs that clip (server/job/norm_board.h). Control threads talk to a core by tasks, which
// run between two rounds, and hear of lost workers through a ring.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/ticks.h"
#include "server/core/attachments.h"
#include "server/core/core_lanes.h"
#include "server/core/core_thread.h"
#include "server/core/dispatch.h"
#include "server/core/paused_workers.h"
#include "server/job/counters.h"

namespace phub::server {

struct CoreOptions {
  std::uint32_t index = 0;
  std::optional<std::uint32_t> cpu;  // where to pin the thread
  Waiting waiting;
  std::uint32_t max_connections = 256;
  transport::EndpointFront tcp_front = {};
  std::shared_ptr<const transport::verbs::OpenDevice> device;  // its NIC; null: no RDMA
  std::function<void()> on_event;  // called by the core's thread after it reports a loss
  bool own_thread = true;          // false: there is none; who calls run_once is the core's thread
  TickSource* time = nullptr;      // null: the processor's
};

class Core final {
 public:
  static Result<std::unique_ptr<Core>> create(const CoreOptions& options);

  // ---- control threads ----
  // Attaches workers and racks, and detaches jobs.
  Attachments& attachments() { return *attachments_; }
  // Runs `function` on the core's thread, between two rounds, and returns when it is done.
  void call(std::function<void()> function) { thread_->call(std::move(function)); }
  // Ends the worker's connection, because the worker was lost elsewhere. Does nothing if it has no
  // connection that works. `reason` is a literal.
  void lose(JobOnCore* job, std::uint32_t worker, std::string_view reason);
  // Ends the core's sleep. Any thread may call it.
  void wake() { thread_->wake(); }
  std::optional<LossEvent> next_event() { return losses_.next_event(); }  // one consumer
  CoreCounters counters() const;
  const DropCounters& drops() const { return losses_.drops(); }

  // ---- the core's thread ----
  bool run_once();

 private:
  explicit Core(const CoreOptions& options);
  bool drain(Lane& lane);
  bool read(JobOnCore& job);
  void on_arrived(Connection& connection, const transport::Completion& arrived, std::uint64_t now);
  bool serve();
  bool serve_alone(JobOnCore& job);
  void serve_some(JobOnCore& job);
  std::chrono::milliseconds rest() const;

  CoreOptions options_;
  Turns turns_;
  CoreLanes lanes_;
  Replies replies_;
  DueWork due_;
  Losses losses_;
  Dispatch dispatch_;
  PausedWorkers paused_;
  std::array<transport::Completion, 64> completions_;
  Counter bytes_received_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::optional<Attachments> attachments_;  // there is one once the core is created
  std::unique_ptr<CoreThread> thread_;      // last: it uses all of the above
};

}  // namespace phub::server
