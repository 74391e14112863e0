// Links to the other members over TCP: one connection to each for this member's requests, and one
// from each for theirs.
//
// One thread has all connections. It sends requests of the threads that read, and answers from the
// holder's memory. Samples that are not in memory yet are answered when a loader has them. A member
// that closes, is late or sends what nobody asked for is closed, and named with the reason. Any
// thread may ask. Owned by the SpreadSet.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/rendezvous/peer_group.h"
#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/waiter.h"
#include "worker/data/spread/answers.h"
#include "worker/data/spread/peer_door.h"
#include "worker/data/spread/peer_links.h"
#include "worker/data/spread/requests.h"

namespace phub::data {

struct TcpLinkOptions {
  std::chrono::milliseconds set_up{10'000};    // how long connecting to all others may take
  std::chrono::milliseconds patience{10'000};  // how long an answer may take

  // A third of a worker's deadline each. So a batch that has waited for both, and is then read from
  // the source, still comes before the job gives the worker up.
  static TcpLinkOptions within(std::chrono::milliseconds timeout) {
    const std::chrono::milliseconds third = std::max(timeout / 3, std::chrono::milliseconds(1));
    return {.set_up = third, .patience = third};
  }
  // A member that has not read a sample by then refuses it, which comes before `patience` is over.
  std::chrono::milliseconds wait() const { return patience / 2; }
};

class TcpLinks final : public PeerLinks, private transport::ReceiveBuffers {
 public:
  // Connects to the other members. Null: there are none, and the listener is closed. Errors: there
  // is no descriptor or thread left.
  static Result<std::unique_ptr<TcpLinks>> create(const LinkParts& parts,
                                                  const TcpLinkOptions& options,
                                                  PeerListener listener);
  ~TcpLinks() override;

  PeerAnswer ask(std::uint32_t member, std::uint64_t sample,
                 std::vector<std::uint8_t>& buffer) override;
  void drop(std::uint32_t member, const std::string& why) override;
  std::string name(std::uint32_t member) const override;

 private:
  // What a connection is for.
  struct Connection {
    enum class Use : std::uint8_t { kNone, kRequests, kAnswers };
    Use use = Use::kNone;
    std::uint32_t member = 0;
  };
  using Order = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  TcpLinks(const LinkParts& parts, const TcpLinkOptions& options);
  void call_all();
  void call(std::uint32_t member, Clock::time_point end);
  void run(const std::stop_token& stop);
  // Has the links' thread do it. Any thread.
  void give(Order order);
  bool take_orders();
  // Tells members what has not been read in time, and how long the next sleep may be.
  std::chrono::milliseconds refuse_late();
  void add(std::uint32_t member, Connection::Use use, transport::TcpStream stream);
  void request(std::uint32_t member, std::uint32_t number);
  void on_completion(const transport::Completion& completion);
  void on_request(std::uint32_t member, const transport::Completion& arrived);
  void on_lost(transport::PeerId peer, transport::Loss loss);
  // A harmless end is not noted.
  void close(transport::PeerId peer, const std::string& why, bool is_harmless = false);
  void post();
  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  std::byte* acquire_checked(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes,
                             std::uint32_t checksum) override;
  void release(transport::PeerId /*peer*/, std::byte* /*data*/) override {}

  const client::PeerGroup group_;
  const TcpLinkOptions options_;
  const std::function<void(std::string_view)> note_;
  const std::uint32_t readers_;
  Holder& holder_;
  Requests requests_;
  Answers answers_;
  std::mutex orders_mutex_;
  std::vector<Order> orders_;
  // From here on: the links' thread's.
  struct Peers {
    std::optional<transport::PeerId> requests{}, answers{};  // connections
    std::deque<std::uint32_t> unsent{};                      // numbers of requests
    bool has_other_set = false;                              // which has been noted
  };
  std::vector<Connection> connections_;  // [peer]
  std::vector<Peers> members_;
  std::vector<PeerRequest> sent_;  // [number % readers]: what the endpoint sends from
  Clock::time_point next_late_ = Clock::time_point::max();  // the first deadline of a request
  std::string why_;                                         // what acquire has refused last
  std::unique_ptr<transport::TcpEndpoint> endpoint_;
  std::unique_ptr<transport::Waiter> waiter_;
  std::unique_ptr<PeerDoor> door_;  // its thread gives orders
  std::jthread thread_;
};

}  // namespace phub::data
