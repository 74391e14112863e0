// What an Exchange sends to one core of one server: words (a vote, a norm), the hyper-parameters,
// then chunks. The chunk that the next forward needs first (the lowest slot) goes first. Over tcp
// it may be one of several streams, each with its part of the core's chunks; words but the
// hyper-parameters go on the first.
//
// Belongs to the Exchange's thread. Nothing allocates after connect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/plan/plan.h"
#include "common/protocol/priority_set.h"
#include "common/transport/transport.h"

namespace phub::client {

// Which core, and the epoch of its server's job.
struct ServerCore {
  std::uint32_t server = 0;
  std::uint32_t core = 0;
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;  // to it, of so many
  std::uint32_t streams = 1;
};

// Where chunks are sent from: the arena of gradients.
struct PushSource {
  const Plan& plan;
  std::size_t element_bytes = 0;
  const std::byte* gradients = nullptr;
  const std::uint32_t* push_bytes = nullptr;  // by chunk; null: each is pushed whole
  std::uint32_t* checksums = nullptr;         // the same, of what is sent; null: there are none
};

struct ReplyCount {
  void add(std::uint32_t size) { ++count, bytes += size; }
  void remove(std::uint32_t size) { --count, bytes -= size; }
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

class CoreConnection {
 public:
  // `chunks`: the core's, by slot. They outlive it.
  explicit CoreConnection(const std::vector<std::uint32_t>& chunks)
      : chunks_(&chunks), pending_(static_cast<std::uint32_t>(chunks.size())) {}

  void connect(const ServerCore& where, transport::Endpoint& endpoint, transport::PeerId peer) {
    where_ = where;
    endpoint_ = &endpoint;
    peer_ = peer;
  }
  // Of the memory that is sent: for words.
  void use_line(std::byte* line) { line_ = line; }

  // Where the core tells norms; null: it does not.
  void hear_norms_at(std::byte* place) { norm_ = place; }
  std::byte* norm() const { return norm_; }

  // Ahead of the next chunk. REQUIRES: no reply is due.
  void set_hyper(const Hyper& hyper);
  // Ahead of what still waits to be sent.
  void vote(const Vote& vote);
  // The same, of the norm of all gradients.
  void tell_norm(double squares);
  void push(std::uint32_t slot, std::uint32_t bytes) {
    pending_.insert(slot);
    due_.add(bytes);
  }
  void on_reply(std::uint32_t bytes) { due_.remove(bytes); }

  bool has_something_to_send() const { return owes_vote_ || owes_norm_ || !pending_.empty(); }
  // As much as the endpoint takes. Returns the bytes of gradients.
  std::uint64_t send(const PushSource& source);

  // A hint before sleeping: so many replies are needed.
  void expect(const ReplyCount& needed);

  const ServerCore& where() const { return where_; }
  const std::vector<std::uint32_t>& chunks() const { return *chunks_; }
  const ReplyCount& due() const { return due_; }  // to pushes sent or to send

 private:
  void add_checksums(const PushSource& source, std::span<const transport::Write> writes) const;
  bool post_line(std::size_t offset, std::uint32_t bytes, std::uint32_t slot);

  const std::vector<std::uint32_t>* chunks_;
  ServerCore where_;
  transport::Endpoint* endpoint_ = nullptr;
  transport::PeerId peer_ = 0;
  std::byte* line_ = nullptr;
  std::byte* norm_ = nullptr;
  PrioritySet pending_;  // slots to send
  ReplyCount due_;
  bool owes_vote_ = false;
  bool owes_norm_ = false;
  bool owes_hyper_ = false;
};

}  // namespace phub::client
