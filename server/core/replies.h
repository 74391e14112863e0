// A core's replies: what is complete is batched for each worker and sent.
//
// Belongs to the core's thread (counters: any thread); allocates when it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/counter.h"
#include "server/core/turns.h"

namespace phub::server {

class Replies {
 public:
  // At most so many connections at a time.
  Replies(std::size_t connections, Turns& turns) : turns_(turns) { dirty_.reserve(connections); }

  // No replies wait to be sent.
  bool empty() const { return dirty_.empty(); }
  // A chunk is complete: everybody who is connected is to have it, or of a job with a quorum those
  // who are released.
  void complete(JobOnCore& job, std::uint32_t slot);
  // A job with a quorum: those who are released are to have the chunk.
  void release(JobOnCore& job, std::uint32_t slot);
  // A job that clips over several servers: all workers are told the norm of what is here.
  void tell_norm(JobOnCore& job);
  // Racks below have an outer step with their differences: they are to have the chunk.
  void complete_together(JobOnCore& job, std::uint32_t slot);
  // ---- Of a job of several racks: what goes to the racks above in the same way ----
  // The chunk's sum.
  void go_up(JobOnCore& job, std::uint32_t slot);
  // The workers' vote, to all racks above.
  void go_up(JobOnCore& job, const Vote& vote);
  // What `from` has set, to the racks to which worker 0's words go on from there.
  void pass_on_hyper(const Connection& from);

  // Sends what has room. `all`: nothing is kept back to be more.
  void send(bool all);
  void forget(Connection& connection) { std::erase(dirty_, &connection); }

  Counter chunks_completed;
  Counter bytes_sent;

 private:
  bool is_batching(Connection& connection) const;
  bool send(Connection& connection);
  void send_word(Connection& connection);
  std::size_t take_replies(Connection& connection, std::span<transport::Write> writes,
                           std::uint64_t now);
  static std::size_t take_sums(Connection& connection, std::span<transport::Write> writes);
  static bool takes_hypers(const Connection& above);
  static bool takes_votes(const Connection& above);
  static void rename(const CoreRoute& route, std::span<transport::Write> writes, bool are_replies);
  static void shorten(const Connection& connection, std::span<transport::Write> replies);
  void complete_below(JobOnCore& job, std::uint32_t slot);
  void complete_racks(JobOnCore& job, std::uint32_t slot);
  void complete_on_streams(JobOnCore& job, std::uint32_t slot);
  void mark(Connection& connection);

  Turns& turns_;
  std::vector<Connection*> dirty_;  // with replies to send
};

}  // namespace phub::server
