// Those who have connected and have not proven yet who they are: so many places, and a share of
// them for one address.
//
// Nobody is turned away at the door. Who comes when all places are taken, or the share of its
// address, takes the place of the oldest of the address that has most; where several have as many,
// of who came first among them. So silence holds a place
// only while nobody wants it, a flood from one address turns out its own, and an honest handshake,
// which takes milliseconds, is over before its turn comes. Refusing newcomers instead lets the
// first who fill the places keep everybody out.
//
// Owned by a listener; its one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>

namespace phub::server {

class Lobby {
 public:
  class Guest {
   public:
    // It has left: its place is somebody else's. Must not enter again from within.
    virtual void turn_out() = 0;

   protected:
    ~Guest() = default;
  };

  // REQUIRES: places is at least 4. An address has three quarters of them at most.
  explicit Lobby(std::size_t places) : places_(places), share_(places - places / 4) {}

  // The guest stays until it leaves or is turned out. REQUIRES: it is not here.
  void enter(const std::string& address, Guest& guest);
  // Nothing happens if it is not here.
  void leave(Guest& guest);

  std::size_t size() const { return found_.size(); }

 private:
  struct Waiting {
    Guest* guest;
    std::uint64_t number;  // counts up with who enters
  };
  using Queue = std::list<Waiting>;  // oldest first
  using Queues = std::map<std::string, Queue, std::less<>>;
  struct Place {
    Queues::iterator queue;
    Queue::iterator guest;
  };

  static bool gives_way_later(const Queues::value_type& a, const Queues::value_type& b);

  void turn_out_oldest(Queues::iterator queue);

  const std::size_t places_;
  const std::size_t share_;
  Queues queues_;  // by address; none is empty
  std::unordered_map<Guest*, Place> found_;
  std::uint64_t entered_ = 0;
};

}  // namespace phub::server
