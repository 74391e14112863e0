// What becomes of an arrival whose job has its turn: a push, a reply of the rack above, or a word.
//
// Belongs to the core's thread. Nothing allocates.
#pragma once

#include "common/protocol/wire.h"
#include "server/core/losses.h"

namespace phub::server {

class Dispatch {
 public:
  // They outlive it.
  Dispatch(Turns& turns, Replies& replies, DueWork& due, Losses& losses)
      : turns_(turns), replies_(replies), due_(due), losses_(losses) {}

  void serve(const Arrival& arrival) {
    Connection& connection = *arrival.connection;
    --connection.queued;
    if (connection.lost) {  // and its memory with it
      give_back(connection, arrival.immediate, arrival.data);
    } else if (connection.role == PeerRole::kRackAbove) {
      on_reply(arrival);
    } else if (wire::is_control(wire::slot_of(arrival.immediate))) {
      on_word(arrival);
    } else {
      on_push(arrival);
    }
  }
  // Gives back the staging buffer of a write that is not processed, if it has one.
  static void give_back(const Connection& connection, std::uint32_t immediate, std::byte* data);

 private:
  void on_push(const Arrival& arrival);
  void on_reply(const Arrival& arrival);
  // Starts what follows an accepted push or reply: replies, the sum for the rack above, due work.
  void on_taken(const Arrival& arrival, std::uint32_t slot, PushResult result);
  void on_deferred(JobOnCore& job, PushResult result);

  // Words: hyper-parameters, votes and norms, by their slots (dispatch_words.cc).
  using TakeWord = void (Dispatch::*)(Connection& connection, const std::byte* data);
  struct Word {
    std::uint32_t slot;
    TakeWord take;
    std::string_view wrong_size;
  };
  static const Word& word_of(std::uint32_t slot);
  void on_word(const Arrival& arrival);
  void on_hyper(Connection& connection, const std::byte* data);
  void on_vote(Connection& connection, const std::byte* data);
  void on_norm(Connection& connection, const std::byte* data);

  Turns& turns_;
  Replies& replies_;
  DueWork& due_;
  Losses& losses_;
};

}  // namespace phub::server
