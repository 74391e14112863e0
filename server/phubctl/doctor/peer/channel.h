// Messages of proto/doctor.proto over a socket, each after its length.
//
// One thread. What comes from the other end is not trusted: lengths are bounded, and no byte beyond
// a message is read, for what follows may be another's.
#pragma once

#include <array>
#include <string>

#include "common/base/unique_fd.h"
#include "server/phubctl/doctor/peer/waits.h"

namespace google::protobuf {
class MessageLite;
}

namespace phub::phubctl::doctor {

constexpr std::size_t kMostMessageBytes = 64 * 1024;

// The bytes of one message as they come.
class Inbox {
 public:
  // Takes what the socket has, without waiting, up to the message's end: true when that is there.
  // Errors: kUnavailable: the other end has closed; kInvalidArgument: no message of ours is so
  // long.
  Result<bool> take(int socket);
  // kInvalidArgument if it is another message. REQUIRES: take has returned true.
  Status parse(google::protobuf::MessageLite& message) const;

 private:
  std::array<unsigned char, 4> length_ = {};
  std::size_t have_ = 0;  // of the length, then of the message
  std::string bytes_;
};

class Channel {
 public:
  // `who`: the other end, for messages.
  Channel(UniqueFd socket, std::string who, const Limits& limits)
      : socket_(std::move(socket)), who_(std::move(who)), limits_(limits) {}

  // Errors: wait_for's; kUnavailable: the other end has closed.
  Status send(const google::protobuf::MessageLite& message);
  // Errors: those, and Inbox's.
  Status receive(google::protobuf::MessageLite& message);

  const std::string& who() const { return who_; }
  // The socket, for another use than messages.
  UniqueFd release() { return std::move(socket_); }

 private:
  UniqueFd socket_;
  std::string who_;
  Limits limits_;
};

}  // namespace phub::phubctl::doctor
