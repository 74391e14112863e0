// The client's half of the data path: stages one write for each chunk of a pushed key, counts the
// replies down, says when a key is ready.
//
// Single-threaded: whoever calls run_once owns it. run_once does not allocate, lock, log or block.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/counter.h"
#include "common/exchange/core_connections.h"
#include "common/exchange/due_replies.h"
#include "common/exchange/lanes.h"
#include "common/exchange/norm_relay.h"
#include "common/plan/plan.h"

namespace phub::client {

struct ExchangeMemory {
  std::byte* hyper = nullptr;            // a line of words per core, wire::kHyperStride apart
  const std::byte* gradients = nullptr;  // the arena
  std::byte* parameters = nullptr;      // the arena that replies are copied to; null: they are read
                                        // where the server published them
  std::byte* sparse_replies = nullptr;  // of the arena's size; null: replies are whole. Over
                                        // verbs where the plan says (changes_offset)
  std::byte* norms = nullptr;           // where cores tell norms, a line per core; null: none do
  std::uint32_t* checksums = nullptr;   // by chunk, of what is pushed; null: there are none
};

struct ConnectionLoss {
  std::uint32_t server = 0;
  std::uint32_t core = 0;
  transport::Loss loss = transport::Loss::kNone;
};

class Exchange {
 public:
  // Only the leader's hyper-parameters are sent. `streams`: how many to each core, by server;
  // empty: one.
  Exchange(std::shared_ptr<const Plan> plan, DataType wire_type, bool leader,
           const std::vector<std::uint32_t>& streams = {});
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // ---- set-up: one connection to every core of every server, or as many streams ----
  Lanes& lanes() { return lanes_; }
  // `connection` is of the endpoint's kind, and the endpoint one of the lanes'.
  template <typename Endpoint, typename Connection>
  Status connect(Endpoint& endpoint, const ServerCore& where, Connection connection) {
    PHUB_ASSIGN_OR_RETURN(const transport::PeerId peer, endpoint.add(std::move(connection)));
    EndpointLane& lane = lanes_.of(endpoint);
    EndpointLane::Peer& mine = lane.at(peer);
    mine.connection = &connections_.of(where);
    if constexpr (std::is_same_v<Endpoint, transport::VerbsEndpoint>) {
      mine.landing = make_window_layout(*plan_, where.server, where.core, source_.element_bytes,
                                        source_.checksums != nullptr);
    }
    mine.connection->connect(where, lane.endpoint(), peer);
    return {};
  }
  void use_memory(const ExchangeMemory& memory);
  // Gradients are pushed from here, laid out as the arena. REQUIRES: idle(); what shm and tcp send
  // is the host's memory, and what verbs sends is registered (Lanes::use_verbs_source).
  void push_from(const std::byte* gradients) { source_.gradients = gradients; }
  // So many bytes of each chunk are pushed, by chunk: written before the push of its keys is
  // started. It outlives the exchange.
  void push_only(std::span<const std::uint32_t> bytes) { source_.push_bytes = bytes.data(); }

  // ---- the data path ----
  // REQUIRES: key is ready.
  void start(KeyId key);
  bool ready(KeyId key) const { return due_.ready(key); }
  bool idle() const { return due_.idle(); }
  // Whether a reply to a chunk of the key said that its update was left out.
  bool was_skipped(KeyId key) const { return due_.was_skipped(key); }
  bool chunk_was_skipped(std::uint32_t chunk) const { return due_.chunk_was_skipped(chunk); }
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
  bool drain(EndpointLane& lane);
  void on_reply(CoreConnection& connection, const transport::Completion& arrived);
  void on_norm(const CoreConnection& connection, const transport::Completion& arrived);
  void fail(const CoreConnection& connection, transport::Loss loss);

  std::shared_ptr<const Plan> plan_;
  bool leader_;
  PushSource source_;
  DueReplies due_;
  CoreConnections connections_;
  std::vector<ReplyCount> needed_;  // by connection; only expect uses it
  std::optional<NormRelay> norms_;  // none: the job does not clip over servers
  Lanes lanes_;
  std::optional<ConnectionLoss> loss_;
  std::array<transport::Completion, 64> completions_;
  Counter bytes_pushed_;
  Counter bytes_received_;
};

}  // namespace phub::client
