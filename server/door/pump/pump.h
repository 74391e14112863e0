// One connection of the control port: moves bytes between a client and gRPC, frame by frame.
//
// The pump ends TLS, reads the client's preface, and only then opens a connection to gRPC: one end
// of a pair of unix sockets, which bears the pump's name. From then on it lets a frame of the
// client's pass when its FrameGate does. It reads from neither end while the other takes nothing,
// so that it holds 32 KiB each way at most.
//
// Owned by its listener and by the callbacks that wait; the io_context's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "server/door/pump/frame_gate.h"
#include "server/door/pump/frame_head.h"
#include "server/door/pump/wire.h"

namespace phub::server {

// A name that nobody can guess, of which no two pumps have the same.
std::string make_pump_name();
// What gRPC calls the other end of a connection that bears the name.
std::string grpc_peer_of(const std::string& pump_name);

class Pump final : public std::enable_shared_from_this<Pump> {
 public:
  struct Events {
    std::function<void(Pump& pump, UniqueFd grpc_end)> on_open;  // once, if ever
    std::function<void(std::string_view reason)> on_unruly;      // it is ended for what it sent
    std::function<void(std::string_view reason)> on_hold;        // one of its frames has to wait
  };

  // `tls` null: plaintext. What the events refer to outlives the io_context's callbacks.
  Pump(boost::asio::io_context& context, UniqueFd client, const TlsContext& tls, std::string name,
       Events events);
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  void start(std::chrono::milliseconds greeting);  // for TLS and the preface
  // The client is known: its frames have more room.
  void know();
  // Both connections end at once.
  void close();

  bool is_serving() const { return state_ == State::kServing; }
  bool is_over() const { return state_ == State::kOver; }
  std::uint64_t received() const { return received_; }  // from the client, without TLS
  const std::string& name() const { return name_; }
  std::optional<PeerCertificate> certificate() const { return wire_.certificate(); }

 private:
  using Clock = FrameGate::Clock;
  enum class State {
    kGreeting,   // TLS, then the preface
    kServing,    // gRPC has the other end
    kLingering,  // nothing more is said; what the client sends is read, or it would miss the end
    kOver
  };
  // A callback that waits for a descriptor.
  struct Wait {
    boost::asio::posix::stream_descriptor& of;
    boost::asio::posix::stream_descriptor::wait_type what;
    bool is_waiting = false;
  };

  void step();
  bool shake_hands();
  bool take_preface();
  void open();
  bool move_up();
  bool read_client();
  void admit_frames();
  bool move_down();
  bool write_client();
  void wait_for_more();
  void wait_on(Wait& wait);
  void wake_after(Clock::duration time);
  void end_unruly(std::string_view reason);
  void linger();
  void drop_what_comes();

  boost::asio::io_context& context_;
  boost::asio::posix::stream_descriptor client_;
  boost::asio::posix::stream_descriptor grpc_;
  boost::asio::steady_timer timer_;
  Wait client_readable_{client_, boost::asio::posix::stream_descriptor::wait_read};
  Wait client_writable_{client_, boost::asio::posix::stream_descriptor::wait_write};
  Wait grpc_readable_{grpc_, boost::asio::posix::stream_descriptor::wait_read};
  Wait grpc_writable_{grpc_, boost::asio::posix::stream_descriptor::wait_write};
  Wire wire_;
  const std::string name_;
  const Events events_;
  State state_ = State::kGreeting;
  Clock::time_point
      deadline_;  // of the greeting, a frame that waits for room, gRPC's last words, lingering
  FrameGate gate_;
  bool is_known_ = false;
  bool is_held_ = false;  // the next frame
  bool client_is_over_ = false;
  bool grpc_is_over_ = false;
  bool tls_wants_to_write_ = false;  // before it can read
  std::string up_;                   // from the client, not with gRPC yet
  std::size_t admitted_ = 0;         // bytes of it that may pass
  std::uint32_t payload_left_ = 0;   // of the last frame that was admitted, beyond these bytes
  std::string down_;                 // from gRPC, not with the client's system yet
  FrameReader replies_;              // up to the end of down_
  std::uint64_t received_ = 0;
};

}  // namespace phub::server
