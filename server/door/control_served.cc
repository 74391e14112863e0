#include "server/door/control_served.h"

#include <fmt/format.h>
#include <malloc.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "common/base/log_value.h"

namespace phub::server {
namespace {

// How much known connections have sent is looked at less often where there are more than so many.
constexpr std::size_t kKnownOfLook = 512;
// Beside its messages: of a call that has succeeded, and of a message, its head and its part of
// HTTP/2.
constexpr std::uint64_t kCallBytes = 4096;
constexpr std::uint64_t kMessageHeadBytes = 512;
constexpr std::uint64_t kMessageFraction = 16;
// Memory is given back when strangers that are gone have sent so many bytes.
constexpr std::uint64_t kWorthGivingBack = std::uint64_t{8} << 20;
constexpr std::chrono::seconds kGiveBackEvery{10};

// "ipv4:127.0.0.1:40000", "ipv6:[::1]:40000", of the socket's other end.
std::string peer_of(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&peer), length, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "gone";
  }
  std::string_view name = host.data();
  if (name.starts_with("::ffff:")) name.remove_prefix(7);  // IPv4 that came to an IPv6 socket
  return name.find(':') == std::string_view::npos ? fmt::format("ipv4:{}:{}", name, port.data())
                                                  : fmt::format("ipv6:[{}]:{}", name, port.data());
}

// A line a minute of each kind.
template <typename Line>
void say(std::chrono::steady_clock::time_point& last, const Line& line) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last < std::chrono::minutes(1)) return;
  last = now;
  line();
}

}  // namespace

void ServedConnections::enter(UniqueFd socket, Door& door, const std::string& address) {
  std::string name = make_pump_name();
  Served& served =
      served_.try_emplace(grpc_peer_of(name), door, address, peer_of(socket.get())).first->second;
  served.pump = std::make_shared<Pump>(
      context_, std::move(socket), options_.tls ? options_.tls() : nullptr, std::move(name),
      Pump::Events{.on_open =
                       [this, &served](Pump& pump, UniqueFd grpc_end) {
                         open(served, grpc_peer_of(pump.name()), std::move(grpc_end));
                       },
                   .on_unruly = [this, &served](auto reason) { say_unruly(served, reason); },
                   .on_hold = [this, &served](auto reason) { say_held(served, reason); }});
  strangers_.enter(address, served);
  served.pump->start(options_.greeting);
}

void ServedConnections::open(Served& served, const std::string& name, UniqueFd grpc_end) {
  served.grpc_end.emplace(grpc_end.get());
  options_.peers->add(name, {.address = served.peer, .certificate = served.pump->certificate()});
  handed_over_.add(1);
  serve_(std::move(grpc_end));
}

void ServedConnections::say_unruly(const Served& served, std::string_view reason) {
  unruly_.add(1);
  say(said_unruly_, [&] {
    spdlog::warn("event=control_unruly peer={} known={} connections={} reason={}", served.peer,
                 served.is_known, unruly_.value(),
                 log_value(fmt::format("it sends {}; its connection is closed", reason)));
  });
}

void ServedConnections::say_held(const Served& served, std::string_view reason) {
  held_.add(1);
  say(said_held_, [&] {
    spdlog::warn(
        "event=control_held peer={} known={} frames={} reason={}", served.peer, served.is_known,
        held_.value(),
        log_value(fmt::format("it sends {}; what it sends next waits at its end", reason)));
  });
}

void ServedConnections::know(const std::string& peer, const std::string& payer) {
  const auto found = served_.find(peer);
  if (found == served_.end() || found->second.pump->is_over()) return;
  Served& served = found->second;
  served.finished += kCallBytes;
  if (served.payer) {
    std::list<Served*>& known = (*served.payer)->second.known;
    return known.splice(known.end(), known, served.place);
  }
  if (!make_room(payer)) {
    return say(said_full_, [this] {
      spdlog::warn(
          "event=control_full connections={} reason=\"new callers may be turned out; is the limit "
          "of open files too low, or does somebody keep connections?\"",
          known_);
    });
  }
  strangers_.leave(served);
  served.door.prove(served.address);
  served.is_known = true;
  served.payer = payers_.try_emplace(payer).first;
  std::list<Served*>& known = (*served.payer)->second.known;
  served.place = known.insert(known.end(), &served);
  ++known_;
  served.pump->know();
}

void ServedConnections::count_message(const std::string& peer, std::uint64_t bytes) {
  const auto found = served_.find(peer);
  if (found == served_.end()) return;
  found->second.finished += bytes + bytes / kMessageFraction + kMessageHeadBytes;
}

void ServedConnections::look() {
  looks_ = (looks_ + 1) % (1 + known_ / kKnownOfLook);
  for (auto one = served_.begin(); one != served_.end();) {
    end_if_too_long(one->second);
    one = one->second.is_over() ? forget(one) : std::next(one);
  }
  if (looks_ == 0) end_payers_longest();
  give_memory_back();
}

// What gRPC has freed lies between what it still uses, and the allocator keeps it.
void ServedConnections::give_memory_back() {
  const auto now = std::chrono::steady_clock::now();
  if (strangers_sent_ < kWorthGivingBack || now - gave_back_ < kGiveBackEvery) return;
  ::malloc_trim(0);
  strangers_sent_ = 0;
  gave_back_ = now;
}

bool ServedConnections::are_at_rest() const {
  return std::none_of(served_.begin(), served_.end(),
                      [](const auto& one) { return one.second.pump->is_serving(); });
}

ServedConnections::Connections::iterator ServedConnections::forget(
    Connections::iterator connection) {
  Served& served = connection->second;
  strangers_.leave(served);
  leave_payer(served);
  if (!served.is_known) {
    served.door.charge(served.address, kSpokenCost);
    strangers_sent_ += served.pump->received();
  }
  if (served.was_turned_out) turned_out_.add(1);
  options_.peers->remove(connection->first);
  return served_.erase(connection);
}

// What is sent lies in memory that all callers share until its calls are whole.
void ServedConnections::end_if_too_long(Served& served) {
  if (served.pump->is_over() || (served.is_known && looks_ != 0)) return;
  const std::uint64_t received = served.pump->received();
  served.unfinished += received - served.received;
  served.received = received;
  if (!served.is_known) {
    if (received > options_.stranger_bytes_max) turn_out(served);
    return;
  }
  served.unfinished -= std::min(served.unfinished, std::exchange(served.finished, 0));
  if (served.unfinished <= options_.unfinished_bytes_max) return;
  say(said_unfinished_, [&] {
    spdlog::warn(
        "event=control_unfinished address={} bytes={} allowed={} reason=\"a caller sends messages "
        "that do not end; its connection is closed\"",
        served.address, served.unfinished, options_.unfinished_bytes_max);
  });
  turn_out(served);
}

void ServedConnections::end_payers_longest() {
  for (auto& [name, payer] : payers_) {
    payer.unfinished = 0;
    for (const Served* const served : payer.known) payer.unfinished += served->unfinished;
  }
  for (auto payer = payers_.begin(); payer != payers_.end();) {
    const auto next = std::next(payer);
    std::uint64_t unfinished = payer->second.unfinished;
    while (unfinished > options_.unfinished_of_payer_max) {
      Served& longest = **std::max_element(
          payer->second.known.begin(), payer->second.known.end(),
          [](const Served* a, const Served* b) { return a->unfinished < b->unfinished; });
      unfinished -= longest.unfinished;
      turn_out(longest);  // the last one takes the payer with it, and leaves nothing unfinished
      crowded_out_.add(1);
    }
    payer = next;
  }
}

std::size_t ServedConnections::share_of(const std::string& payer) const {
  if (payer.empty()) return SIZE_MAX;  // but for all places
  if (options_.known_of_payer_max != 0) return options_.known_of_payer_max;
  return std::max<std::size_t>(1, options_.known_max / 2);
}

// Who has most gives way to others, so that some who fill the places keep nobody out.
bool ServedConnections::make_room(const std::string& payer) {
  const auto own = payers_.find(payer);
  const std::size_t has = own == payers_.end() ? 0 : own->second.known.size();
  if (has > 0 && has >= share_of(payer)) {
    crowd_out(own);
    return true;
  }
  if (known_ < options_.known_max) return true;
  const auto most = std::max_element(
      payers_.begin(), payers_.end(),
      [](const auto& a, const auto& b) { return a.second.known.size() < b.second.known.size(); });
  if (most == payers_.end() || most->second.known.size() <= has + 1) return false;
  crowd_out(most);
  return true;
}

void ServedConnections::crowd_out(Payers::iterator payer) {
  say(said_crowded_, [&] {
    spdlog::warn(
        "event=control_crowded tenant={} connections={} allowed={} reason=\"its connections of "
        "which nothing was heard longest are closed; does it leave them open?\"",
        log_value(payer->first), payer->second.known.size(), share_of(payer->first));
  });
  crowded_out_.add(1);
  turn_out(*payer->second.known.front());
}

void ServedConnections::leave_payer(Served& served) {
  if (!served.payer) return;
  const Payers::iterator payer = *std::exchange(served.payer, std::nullopt);
  payer->second.known.erase(served.place);
  if (payer->second.known.empty()) payers_.erase(payer);
  --known_;
}

void ServedConnections::turn_out(Served& served) {
  strangers_.leave(served);
  leave_payer(served);
  served.turn_out();
}

}  // namespace phub::server
