// A worker of a job that can stop reading its replies, which the client never does: what it still
// has to send goes out, what comes stays in its socket or ring. It heartbeats all the while.
//
// One thread. Shm and tcp, one server, fp32.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "common/connect/data_connection.h"
#include "common/exchange/exchange.h"
#include "common/protocol/wire.h"
#include "common/rendezvous/heartbeats.h"
#include "common/rendezvous/membership.h"
#include "worker/client/client_options.h"

namespace phub::testing {

class StallingWorker {
 public:
  // Joins and returns when the job runs.
  static Result<std::unique_ptr<StallingWorker>> join(const ClientOptions& options,
                                                      const std::vector<KeySpec>& keys) {
    auto worker = std::unique_ptr<StallingWorker>(new StallingWorker(options));
    PHUB_RETURN_IF_ERROR(worker->open(keys));
    return worker;
  }
  ~StallingWorker() {
    for (const auto& server : membership_.servers) {
      static_cast<void>(server->leave(options_.timeout));
    }
  }
  StallingWorker(const StallingWorker&) = delete;
  StallingWorker& operator=(const StallingWorker&) = delete;

  void read(bool reads) {
    for (transport::PeerId core = 0; core < membership_.joined[0].cores; ++core) {
      endpoint_->pause(core, !reads);
    }
  }

  // The value at each element of the key. REQUIRES: the key is answered.
  void push(KeyId key, float value) {
    auto* const gradients = reinterpret_cast<float*>(memory_->data() + gradients_offset_);
    std::fill_n(gradients + plan_->key_offset[key], keys_[key].elements, value);
    exchange_->start(key);
  }

  // Moves bytes until `is_enough`; an error if that takes longer than the options' timeout.
  template <typename Predicate>
  Status run_until(Predicate is_enough) {
    const auto end = std::chrono::steady_clock::now() + options_.timeout;
    while (!is_enough()) {
      if (exchange_->loss()) return {Code::kUnavailable, "its connection was lost"};
      if (std::chrono::steady_clock::now() > end) return {Code::kDeadlineExceeded, "a stall"};
      if (!exchange_->run_once()) std::this_thread::yield();
    }
    return {};
  }
  bool is_answered() const { return exchange_->idle(); }
  bool has_only(KeyId key, float value) const {
    const float* const first = parameters_ + plan_->key_offset[key];
    return std::all_of(first, first + keys_[key].elements, [&](float x) { return x == value; });
  }

 private:
  static constexpr int kReceiveBufferBytes = 256 << 10;

  explicit StallingWorker(const ClientOptions& options) : options_(options) {}

  Status open(const std::vector<KeySpec>& keys) {
    keys_ = keys;
    const JobSpec job = client::describe_job(options_, keys);
    PHUB_ASSIGN_OR_RETURN(membership_, client::join_all(options_.servers, job, options_.timeout,
                                                        options_.security, options_.worker_index));
    heartbeat_ = std::make_unique<client::Heartbeats>(membership_, options_.timeout);
    const client::JoinInfo& joined = membership_.joined[0];
    PHUB_ASSIGN_OR_RETURN(plan_, client::agree_on_plan(membership_, job, options_.timeout));
    gradients_offset_ = wire::hyper_bytes(joined.cores);
    const std::size_t arena = plan_->arena_elements * sizeof(float);
    PHUB_ASSIGN_OR_RETURN(memory_, SharedMemory::create("phub-test", gradients_offset_ + arena));
    PHUB_RETURN_IF_ERROR(memory_->commit());
    PHUB_ASSIGN_OR_RETURN(own_parameters_, Mapping::anonymous(arena));
    parameters_ = reinterpret_cast<const float*>(own_parameters_->data());
    exchange_ = std::make_unique<client::Exchange>(plan_, options_.job.wire_type, /*leader=*/false);
    exchange_->use_memory({.hyper = memory_->data(),
                           .gradients = memory_->data() + gradients_offset_,
                           .parameters = own_parameters_->data()});
    for (std::uint32_t core = 0; core < joined.cores; ++core) {
      PHUB_RETURN_IF_ERROR(connect(core));
    }
    endpoint_ = exchange_->lanes().endpoints().front();
    return client::start_all(membership_, job.name, {"a test"}, options_.timeout);
  }

  Status connect(std::uint32_t core) {
    const client::JoinInfo& joined = membership_.joined[0];
    const client::DataTarget target{.joined = &joined, .core = core, .timeout = options_.timeout};
    if (options_.transport == "tcp") {
      PHUB_ASSIGN_OR_RETURN(auto stream, client::open_tcp(target));
      // Fixed: left to itself the system lets it grow to tcp_rmem's maximum, which may be all
      // replies.
      ::setsockopt(stream.socket.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof(int));
      PHUB_ASSIGN_OR_RETURN(auto* endpoint, exchange_->lanes().tcp());
      return exchange_->connect(*endpoint, {0, core, joined.epoch}, std::move(stream));
    }
    const auto chunks = static_cast<std::uint32_t>(plan_->core_chunks[0][core].size());
    PHUB_ASSIGN_OR_RETURN(auto connection,
                          client::open_shm(target, *memory_, transport::channel_capacity(chunks)));
    PHUB_ASSIGN_OR_RETURN(auto* endpoint, exchange_->lanes().shm());
    return exchange_->connect(*endpoint, {0, core, joined.epoch}, std::move(connection));
  }

  ClientOptions options_;
  std::vector<KeySpec> keys_;
  client::Membership membership_;
  std::unique_ptr<client::Heartbeats> heartbeat_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedMemory> memory_;  // hyper slots, then gradients
  std::size_t gradients_offset_ = 0;
  std::unique_ptr<Mapping> own_parameters_;
  const float* parameters_ = nullptr;
  std::unique_ptr<client::Exchange> exchange_;
  transport::Endpoint* endpoint_ = nullptr;  // the exchange's
};

}  // namespace phub::testing
