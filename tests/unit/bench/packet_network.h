// A network, packet by packet: every link is a queue that sends what arrived first. What the
// simulator's formulas are held against.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace phub::bench::simulate {

class PacketNetwork {
 public:
  using Then = std::function<void()>;

  explicit PacketNetwork(double packet_bytes) : packet_bytes_(packet_bytes) {}

  // Bytes a second. Returns its number.
  std::size_t add_link(double rate) {
    links_.push_back({.rate = rate, .free = 0.0});
    return links_.size() - 1;
  }

  // `bytes` over these links, packet after packet, and `latency` once; then calls `then`.
  void send(const std::vector<std::size_t>& path, double bytes, double latency, Then then) {
    auto message = std::make_shared<Message>(Message{path, latency, 0, std::move(then)});
    for (double left = bytes; left > 0; left -= packet_bytes_) {
      ++message->left;
      events_.push({now_, order_++, message, 0, std::min(left, packet_bytes_)});
    }
  }

  // Until nothing is under way. Returns when the last message arrived.
  double run() {
    while (!events_.empty()) {
      Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.hop < event.message->path.size()) {
        Link& link = links_[event.message->path[event.hop]];
        link.free = std::max(link.free, now_) + event.bytes / link.rate;
        event.time = link.free;
        if (++event.hop == event.message->path.size()) event.time += event.message->latency;
        events_.push(event);
      } else if (--event.message->left == 0) {
        event.message->then();
      }
    }
    return now_;
  }

 private:
  struct Link {
    double rate;
    double free;
  };
  struct Message {
    std::vector<std::size_t> path;
    double latency;
    std::size_t left;  // packets
    Then then;
  };
  struct Event {
    double time;
    std::size_t order;
    std::shared_ptr<Message> message;
    std::size_t hop;
    double bytes;
    bool operator<(const Event& other) const {  // the earliest is on top
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };

  const double packet_bytes_;
  double now_ = 0.0;
  std::size_t order_ = 0;
  std::vector<Link> links_;
  std::priority_queue<Event> events_;
};

}  // namespace phub::bench::simulate
