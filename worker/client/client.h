// The Client that joins servers.
//
// Owned by whoever called Client::connect; one thread calls it. client.cc joins, agrees on the plan
// and connects; client_rounds.cc then only pushes and waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/connect/data_connection.h"
#include "common/connect/transport_choice.h"
#include "common/exchange/driver.h"
#include "common/exchange/exchange.h"
#include "common/rendezvous/heartbeat_thread.h"
#include "common/rendezvous/rendezvous.h"
#include "worker/client/phub.h"
#include "worker/client/round_pushes.h"

namespace phub::client {

class JobClient final : public Client {
 public:
  explicit JobClient(const ClientOptions& options) : options_(options) {}
  ~JobClient() override;

  Status register_keys(const std::vector<KeySpec>& keys) override;
  std::span<std::byte> gradient_bytes(KeyId key) override;
  std::span<const std::byte> parameter_bytes(KeyId key) const override;
  ArrayLayout layout() const override;
  Result<std::string> push_from(ExportedMemoryPointer gpu) override;
  Status push(KeyId key) override;
  Status wait(KeyId key) override { return wait_for(key); }
  Status wait_all() override { return wait_for(std::nullopt); }
  Status initialise() override;
  Status set_hyper(const Hyper& hyper) override;
  Status vote(const Vote& vote) override;
  Result<std::vector<std::string>> snapshot() override;
  bool was_skipped(KeyId key) const override {
    PHUB_CHECK(exchange_ && key < keys_.size(), "a key that is not registered");
    return exchange_->was_skipped(key);
  }
  std::uint64_t rounds_before() const override {
    return membership_.servers.empty() ? 0 : membership_.servers[0]->rounds_before();
  }
  std::uint32_t worker_index() const override {
    return membership_.joined.empty() ? 0 : membership_.joined[0].worker_index;
  }
  std::uint32_t workers() const override { return options_.workers; }
  std::string_view transport() const override { return transport_; }
  std::string_view transport_reason() const override { return reason_; }
  ClientStatistics statistics() const override;

 private:
  bool any_uses(const std::string& transport) const {
    return std::any_of(choices_.begin(), choices_.end(), [&](const TransportChoice& choice) {
      return choice.transport == transport;
    });
  }
  Status make_plan_with_servers();
  Status choose_transports();
  Status allocate();
  Status connect_server(std::uint32_t server);
  Status connect_core(std::uint32_t server, std::uint32_t core);
  Status connect_verbs(std::uint32_t server, const DataTarget& target);
  Status start();
  Status check_key(KeyId key) const;
  Status start_push(KeyId key);
  // Whether what is waited for cannot come any more. The caller's thread, while it waits.
  bool hopeless() const;
  Status wait_for(std::optional<KeyId> key);
  Status explain_failure();

  ClientOptions options_;
  std::vector<KeySpec> keys_;
  std::vector<std::uint32_t> cores_;      // by server
  std::vector<TransportChoice> choices_;  // by server
  std::string transport_;                 // of all of them, or "mixed"
  std::string reason_;
  Membership membership_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedMemory> memory_;  // hyper slots, then the gradient arena
  std::size_t gradients_offset_ = 0;
  std::unique_ptr<Mapping> local_parameters_;  // null: the server's are read in place
  const std::byte* parameters_ = nullptr;
  std::shared_ptr<Mapping> published_;
  ExportedMemoryPointer gpu_gradients_;      // null: gradients are pushed from memory_
  std::unique_ptr<VerbsPorts> verbs_ports_;  // null: not looked for, or there is none
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Progress> progress_;
  bool initialising_ = false;  // until all initial values are there
  std::uint64_t rounds_ = 0;
  RoundPushes pushes_;  // since the last vote, where there are votes
  std::chrono::steady_clock::time_point wait_start_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace phub::client
