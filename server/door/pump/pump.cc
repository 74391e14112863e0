#include "server/door/pump/pump.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace phub::server {
namespace {

using Error = boost::system::error_code;
using std::chrono::milliseconds;

// Read at once, and the most that is kept of what cannot be passed on: twice this.
constexpr std::size_t kPieceBytes = 16 * 1024;
// Pieces before others have their turn.
constexpr int kPiecesOfTurn = 4;
// Until a stranger has made room for a frame that waits for it.
constexpr std::chrono::seconds kRoomPatience{10};
constexpr std::chrono::seconds kLinger{1};
constexpr int kPairBufferBytes = 64 * 1024;  // of the system's, each way
constexpr std::string_view kGoAway("\0\0\x08\x07\0\0\0\0\0", kFrameHeadBytes);
constexpr std::string_view kEnhanceYourCalm("\0\0\0\x0b", 4);

using Piece = std::array<char, kPieceBytes>;

// A connection of which one end has the name, and that end; empty: there are no descriptors left.
std::pair<UniqueFd, UniqueFd> named_pair(const std::string& name) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return {};
  }
  std::pair<UniqueFd, UniqueFd> pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
  for (const int end : ends) {
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kPairBufferBytes, sizeof(kPairBufferBytes));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // an abstract name: its first byte is zero
  std::memcpy(&address.sun_path[1], name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(ends[0], reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  return pair;
}

}  // namespace

std::string make_pump_name() {
  std::array<std::uint64_t, 2> random{};
  while (::getrandom(random.data(), sizeof(random), 0) != sizeof(random)) {
  }
  return fmt::format("phub-caller-{:016x}{:016x}", random[0], random[1]);
}

std::string grpc_peer_of(const std::string& pump_name) { return "unix-abstract:" + pump_name; }

Pump::Pump(boost::asio::io_context& context, UniqueFd client, const TlsContext& tls,
           std::string name, Events events)
    : context_(context),
      client_(context, client.release()),
      grpc_(context),
      timer_(context),
      wire_(client_.native_handle(), tls),
      name_(std::move(name)),
      events_(std::move(events)),
      gate_(Clock::now()) {}

void Pump::start(milliseconds greeting) {
  deadline_ = Clock::now() + greeting;
  wake_after(greeting);
  step();
}

void Pump::know() {
  if (is_known_ || is_over()) return;
  is_known_ = true;
  gate_.raise(Clock::now());
  step();
}

void Pump::close() {
  state_ = State::kOver;
  timer_.cancel();
  Error ignored;
  client_.close(ignored);
  grpc_.close(ignored);
  std::string().swap(up_);
  std::string().swap(down_);
}

// Does what can be done now, and waits for what makes more possible.
void Pump::step() {
  if (state_ == State::kOver) return;
  if (state_ == State::kLingering) return drop_what_comes();
  if (state_ == State::kGreeting && Clock::now() >= deadline_) return close();
  if (state_ == State::kGreeting && !shake_hands()) return;
  bool has_moved = true;
  for (int piece = 0; has_moved && piece < kPiecesOfTurn; ++piece) {
    has_moved = move_down();
    has_moved = move_up() || has_moved;
    if (state_ == State::kOver || state_ == State::kLingering) return;
  }
  if (client_is_over_ && (admitted_ == 0 || grpc_is_over_)) return close();
  if (grpc_is_over_ && (down_.empty() || Clock::now() >= deadline_)) return linger();
  if (has_moved) return boost::asio::post(context_, [self = shared_from_this()] { self->step(); });
  wait_for_more();
}

bool Pump::shake_hands() {
  switch (wire_.shake_hands()) {
    case Wire::Need::kNothing:
      return true;
    case Wire::Need::kReadable:
      wait_on(client_readable_);
      return false;
    case Wire::Need::kWritable:
      wait_on(client_writable_);
      return false;
    case Wire::Need::kOver:
      linger();  // the alert that says why is on its way
      return false;
  }
  return false;
}

// Whether anything has moved.
bool Pump::move_up() {
  if (grpc_is_over_) return false;
  const bool has_read = read_client();
  if (state_ == State::kGreeting && !take_preface()) return has_read;
  admit_frames();
  if (state_ != State::kServing || admitted_ == 0) return has_read;
  const auto sent = ::send(grpc_.native_handle(), up_.data(), admitted_, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return has_read;
    up_.erase(0, admitted_);  // gRPC takes nothing more; its last words are still to be read
    admitted_ = 0;
    return true;
  }
  up_.erase(0, static_cast<std::size_t>(sent));
  admitted_ -= static_cast<std::size_t>(sent);
  if (up_.empty()) std::string().swap(up_);  // connections are many, and most are at rest
  return true;
}

bool Pump::read_client() {
  if (client_is_over_ || is_held_ || up_.size() >= kPieceBytes) return false;
  Piece piece{};
  const Wire::Moved got = wire_.read(piece.data(), piece.size());
  tls_wants_to_write_ = got.need == Wire::Need::kWritable;
  client_is_over_ = got.need == Wire::Need::kOver;
  received_ += got.bytes;
  up_.append(piece.data(), got.bytes);
  return got.bytes > 0;
}

// Whether it is there.
bool Pump::take_preface() {
  const std::string_view begin = std::string_view(up_).substr(0, kPreface.size());
  if (begin != kPreface.substr(0, begin.size())) {
    linger();
    return false;
  }
  if (begin.size() < kPreface.size()) return false;
  open();
  return state_ == State::kServing;
}

void Pump::open() {
  auto [own, grpc_end] = named_pair(name_);
  if (!own) return close();
  Error error;
  grpc_.assign(own.get(), error);
  if (error) return close();
  static_cast<void>(own.release());
  admitted_ = kPreface.size();
  timer_.cancel();
  state_ = State::kServing;
  events_.on_open(*this, std::move(grpc_end));
}

void Pump::admit_frames() {
  bool was_held = std::exchange(is_held_, false);
  while (admitted_ < up_.size()) {
    if (payload_left_ > 0) {
      const auto part = std::min<std::size_t>(payload_left_, up_.size() - admitted_);
      admitted_ += part;
      payload_left_ -= static_cast<std::uint32_t>(part);
      continue;
    }
    if (up_.size() - admitted_ < kFrameHeadBytes) return;
    const FrameHead head = frame_head(&up_[admitted_]);
    const auto now = Clock::now();
    const FrameGate::Verdict verdict = gate_.admit(head, now);
    if (verdict == FrameGate::Verdict::kEnd) return end_unruly(gate_.reason());
    if (verdict == FrameGate::Verdict::kHold) {
      is_held_ = true;
      if (!was_held) {
        deadline_ = now + kRoomPatience;
        events_.on_hold(gate_.reason());
      } else if (!is_known_ && gate_.waits_for_room() && now >= deadline_) {
        return end_unruly(gate_.reason());
      }
      return wake_after(gate_.wait(now));
    }
    was_held = false;
    admitted_ += kFrameHeadBytes;
    payload_left_ = head.length;
  }
}

bool Pump::move_down() {
  bool has_moved = false;
  if (down_.empty() && grpc_.is_open() && !grpc_is_over_) {
    Piece piece{};
    const auto got = ::recv(grpc_.native_handle(), piece.data(), piece.size(), 0);
    if (got > 0) {
      const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
      replies_.take(bytes, [this](const FrameHead& head) { gate_.on_reply(head); });
      down_.assign(bytes);
      has_moved = true;
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      grpc_is_over_ = true;
      deadline_ = Clock::now() + kRoomPatience;  // for the client to take what is left
      wake_after(kRoomPatience);
    }
  }
  return write_client() || has_moved;
}

bool Pump::write_client() {
  if (down_.empty() || client_is_over_) return false;
  const Wire::Moved sent = wire_.write(down_);
  if (sent.bytes == 0) {
    client_is_over_ = sent.need == Wire::Need::kOver;
    return false;
  }
  down_.erase(0, sent.bytes);
  if (!down_.empty()) return true;
  std::string().swap(down_);
  gate_.on_replies_taken();
  return true;
}

void Pump::wait_for_more() {
  if (!client_is_over_) {
    const bool has_room = !is_held_ && up_.size() < kPieceBytes && !grpc_is_over_;
    if (has_room && !tls_wants_to_write_) wait_on(client_readable_);
    if (!down_.empty() || tls_wants_to_write_) wait_on(client_writable_);
  }
  if (!grpc_.is_open() || grpc_is_over_) return;
  if (down_.empty()) wait_on(grpc_readable_);
  if (admitted_ > 0) wait_on(grpc_writable_);
}

void Pump::wait_on(Wait& wait) {
  if (std::exchange(wait.is_waiting, true)) return;
  wait.of.async_wait(wait.what, [self = shared_from_this(), &wait](const Error& error) {
    wait.is_waiting = false;
    if (!error) self->step();
  });
}

void Pump::wake_after(Clock::duration time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this()](const Error& error) {
    if (!error) self->step();
  });
}

// The client is told, where what it reads is between two frames.
void Pump::end_unruly(std::string_view reason) {
  if (down_.empty() && replies_.is_between_frames()) {
    const std::uint32_t last = gate_.last_stream();
    std::string words(kGoAway);
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      words.push_back(static_cast<char>(last >> shift & 0xffU));
    }
    words.append(kEnhanceYourCalm);
    wire_.write(words);
  }
  events_.on_unruly(reason);
  linger();
}

// A close with bytes that nobody has read would reset the connection, and the client would lose
// what it was told last.
void Pump::linger() {
  state_ = State::kLingering;
  Error ignored;
  grpc_.close(ignored);
  wire_.end_writing();
  deadline_ = Clock::now() + kLinger;
  wake_after(kLinger);
  drop_what_comes();
}

void Pump::drop_what_comes() {
  if (Clock::now() >= deadline_) return close();
  Piece piece{};
  for (int i = 0; i < kPiecesOfTurn; ++i) {
    const auto got = ::recv(client_.native_handle(), piece.data(), piece.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return close();
    }
    if (got < 0) return wait_on(client_readable_);
  }
  close();  // it does not listen
}

}  // namespace phub::server
