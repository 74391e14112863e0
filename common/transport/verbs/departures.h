// Connections that were removed: while their last writes leave, and then until somebody destroys
// them. Belongs to the endpoint's thread; allocates when it is made.
//
// Destroying a queue pair drops what it has not sent yet, and is a call of the device's driver that
// may take milliseconds, as giving back the memory behind it does. So neither the waiting nor the
// destroying is the thread's that polls: it only looks whether a connection is done.
#pragma once

#include <chrono>
#include <vector>

#include "common/transport/verbs/request_tag.h"
#include "common/transport/verbs/verbs_connection.h"

namespace phub::transport::verbs {

class Departures {
 public:
  using Clock = std::chrono::steady_clock;
  // What still waits in a queue pair is given up after this: a peer that takes nothing is stuck.
  static constexpr std::chrono::milliseconds kLongest{10};
  // Of a queue pair's sends, beside those for writes: the fence.
  static constexpr std::uint32_t kSpareSends = 1;

  explicit Departures(std::size_t max_peers);

  // How far a connection's sends are, by their sequence numbers.
  struct Sends {
    RequestTag tag = 0;
    std::uint32_t posted = 0;
    std::uint32_t retired = 0;
  };
  // Posts a fence behind its writes and waits for it; at once done if none is on its way.
  void begin(VerbsConnection connection, const Sends& sends, Clock::time_point now);
  void end(VerbsConnection connection);

  // A completion of a connection that the endpoint does not have: everything up to there is out, or
  // the queue pair has broken. Nobody's: ignored.
  void on_sent(RequestTag tag, std::uint32_t upto);
  void on_broken(RequestTag tag);
  // Ends what is done or has waited long enough.
  void look(Clock::time_point now);

  std::size_t leaving() const { return leaving_.size(); }
  void take_ended(std::vector<VerbsConnection>& into) { ended_.swap(into); }

 private:
  struct Leaving {
    VerbsConnection connection;
    Sends sends;
    Clock::time_point deadline;
  };
  Leaving* find(RequestTag tag);

  std::vector<Leaving> leaving_;
  std::vector<VerbsConnection> ended_;
};

}  // namespace phub::transport::verbs
