// The worker's half of the data path: stages one write per chunk of a pushed key, counts the
// replies down, says when a key is ready.
//
// Single-threaded: whoever calls run_once owns it. run_once does not allocate, lock, log or block.
// The chunk that the next forward needs first (the lowest slot) is sent first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/counter.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/plan/plan.h"
#include "common/protocol/keys.h"
#include "common/protocol/priority_set.h"
#include "common/protocol/window_layout.h"
#include "common/protocol/wire.h"
#include "common/transport/shm/shm_endpoint.h"
#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/verbs/verbs_endpoint.h"

namespace phub::client {

struct ExchangeMemory {
  std::byte* hyper = nullptr;  // a line per connection, wire::kHyperStride apart: Hyper and Vote
  const std::byte* gradients = nullptr;  // the arena
  std::byte* parameters = nullptr;  // the arena that replies are copied to; null: they are read
                                    // where the server published them
};

struct ConnectionLoss {
  std::uint32_t server = 0;
  std::uint32_t core = 0;
  transport::Loss loss = transport::Loss::kNone;
};

class Exchange final : private transport::ReceiveBuffers {
 public:
  static Result<std::unique_ptr<Exchange>> create(std::shared_ptr<const Plan> plan,
                                                  DataType wire_type, bool leader);

  // ---- set-up: one call for every core of every server, in order ----
  Status connect_tcp(std::uint32_t server, std::uint32_t core, std::uint32_t epoch,
                     transport::TcpStream stream);
  Status connect_shm(std::uint32_t server, std::uint32_t core, std::uint32_t epoch,
                     transport::ShmConnection connection);
  // The endpoint of a device: connections are prepared and connected on it.
  Result<transport::VerbsEndpoint*> verbs_on(
      const std::shared_ptr<const transport::verbs::OpenDevice>& device);
  Status connect_verbs(std::uint32_t server, std::uint32_t core, std::uint32_t epoch,
                       const transport::VerbsEndpoint* endpoint,
                       transport::VerbsConnection connection);
  void use_memory(const ExchangeMemory& memory) { memory_ = memory; }
  // Gradients are pushed from here, laid out as the arena. REQUIRES: idle(); what shm and tcp send
  // is the host's memory, and what verbs sends is registered (use_verbs_source).
  void push_from(const std::byte* gradients) { memory_.gradients = gradients; }
  // On every verbs connection, with the key that `key_on` has for its device.
  void use_verbs_source(
      std::span<const std::byte> bytes,
      const std::function<std::uint32_t(const transport::verbs::OpenDevice&)>& key_on);
  std::vector<transport::Endpoint*> endpoints();

  // ---- the data path ----
  // REQUIRES: key is ready.
  void start(KeyId key);
  bool ready(KeyId key) const { return keys_[key].remaining == 0; }
  bool idle() const { return outstanding_ == 0; }
  // Whether a reply to a chunk of the key said that its update was left out.
  bool was_skipped(KeyId key) const { return keys_[key].skipped; }
  // REQUIRES: idle().
  void set_hyper(const Hyper& hyper);
  // To every core that has chunks, ahead of what still waits to be sent. REQUIRES: all replies of
  // the round of the last vote have arrived.
  void vote(const Vote& vote);
  // True if something happened.
  bool run_once();
  const std::optional<ConnectionLoss>& loss() const { return loss_; }

  // A hint before sleeping: only the replies that `key` (all keys: nothing) still needs count.
  void expect(std::optional<KeyId> key);
  // The same, but every reply counts.
  void expect_any();

  // Any thread.
  std::uint64_t bytes_pushed() const { return bytes_pushed_.value(); }
  std::uint64_t bytes_received() const { return bytes_received_.value(); }

 private:
  struct Replies {
    void add(std::uint32_t size) { ++count, bytes += size; }
    void remove(std::uint32_t size) { --count, bytes -= size; }
    std::uint32_t count = 0;
    std::uint64_t bytes = 0;
  };
  struct Connection {
    transport::Endpoint* endpoint = nullptr;
    transport::PeerId peer = 0;
    std::uint32_t server = 0;
    std::uint32_t core = 0;
    std::uint32_t epoch = 0;
    const std::vector<std::uint32_t>* chunks = nullptr;  // by slot
    WindowLayout landing;                                // verbs: where pushes go
    std::unique_ptr<PrioritySet> pending;                // slots to send
    Replies outstanding;                                 // to pushes sent or to send
    Replies needed;                                      // scratch of expect
    std::uint32_t hyper_version = 0;
    bool owes_vote = false;
  };
  struct ChunkState {
    std::uint32_t connection = 0;
    std::uint32_t missing = 0;  // segments whose keys are not pushed yet
    bool outstanding = false;
  };
  struct KeyState {
    std::uint32_t remaining = 0;  // chunks whose reply is not there yet
    bool skipped = false;
  };

  // The endpoint of one RDMA device; where its writes go, both ways.
  struct VerbsLane final : transport::ReceiveBuffers, transport::Layout {
    explicit VerbsLane(Exchange& exchange_) : exchange(exchange_) {}
    std::byte* acquire(transport::PeerId peer, std::uint32_t immediate,
                       std::uint32_t bytes) override;
    void release(transport::PeerId, std::byte*) override {}
    std::uint64_t offset(transport::PeerId peer, std::uint32_t immediate) const override;

    Exchange& exchange;
    std::vector<std::uint32_t> by_peer;
    std::unique_ptr<transport::VerbsEndpoint> endpoint;  // last: it uses the above
  };

  Exchange(std::shared_ptr<const Plan> plan, DataType wire_type, bool leader);
  Connection& add(std::uint32_t server, std::uint32_t core, std::uint32_t epoch);
  void send(std::uint32_t index);
  bool send_hyper(Connection& connection, std::uint32_t index);
  void send_vote(Connection& connection, std::uint32_t index);
  bool drain(transport::Endpoint& endpoint, const std::vector<std::uint32_t>& by_peer);
  void on_reply(Connection& connection, const transport::Completion& arrived);
  void fail(const Connection& connection, transport::Loss loss);
  std::uint32_t bytes_of(const Chunk& chunk) const {
    return static_cast<std::uint32_t>(chunk.elements * element_bytes_);
  }
  // Where the reply goes that `immediate` announces; null if it is not expected.
  std::byte* place_of(const Connection& connection, std::uint32_t immediate,
                      std::uint32_t bytes) const;
  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate,
                     std::uint32_t bytes) override {
    return place_of(connections_[by_tcp_peer_[peer]], immediate, bytes);
  }
  void release(transport::PeerId, std::byte*) override {}

  std::shared_ptr<const Plan> plan_;
  std::size_t element_bytes_;
  bool leader_;
  ExchangeMemory memory_;
  std::unique_ptr<transport::TcpEndpoint> tcp_;
  std::unique_ptr<transport::ShmEndpoint> shm_;
  std::vector<Connection> connections_;     // server by server, core by core
  std::vector<std::uint32_t> by_tcp_peer_;  // connection of a peer
  std::vector<std::uint32_t> by_shm_peer_;
  std::vector<std::unique_ptr<VerbsLane>> lanes_;
  std::vector<ChunkState> chunks_;
  std::vector<KeyState> keys_;
  std::uint64_t outstanding_ = 0;  // keys that are pushed and not ready
  Hyper hyper_;
  std::uint32_t hyper_version_ = 0;
  std::optional<ConnectionLoss> loss_;
  std::array<transport::Completion, 64> completions_;
  Counter bytes_pushed_;
  Counter bytes_received_;
};

}  // namespace phub::client
