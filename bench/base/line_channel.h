// Lines of text between the bench and its processes: over a local stream socket, or what one
// prints.
//
// One owner, one thread for each end. The bench listens on an abstract Unix name (nothing to
// remove afterwards), or on a path, which processes in other network namespaces see too; each
// process connects and says hello. A closed channel ends the process.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub::bench {

using Deadline = std::chrono::steady_clock::time_point;

// Milliseconds until the deadline as poll(2) wants them, never negative.
int poll_timeout(Deadline deadline);

// Of a socket, the end of a pipe that is read, or two pipes.
class LineChannel {
 public:
  LineChannel() = default;
  explicit LineChannel(UniqueFd fd) : fd_(std::move(fd)) {}
  LineChannel(UniqueFd fd, UniqueFd out) : fd_(std::move(fd)), out_(std::move(out)) {}

  // Error: kUnavailable when the other end is closed.
  Status write_line(std::string_view line);
  // Reads what is there, waiting for at least one byte. Error: kUnavailable at the end of stream.
  Status read_some();
  // A complete line that was read, without its newline.
  std::optional<std::string> take_line();
  // Blocks, without a deadline, until a line is complete: how an idle process waits for work.
  Result<std::string> read_line();

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  UniqueFd out_;  // where lines are written, if that is another
  std::string buffer_;
};

// Listens on an unused abstract name, returned in `name`.
Result<UniqueFd> listen_abstract(std::string& name);
// Listens on a new file, which the caller removes. Names that begin with '/' are paths.
Result<UniqueFd> listen_path(const std::string& path);
Result<LineChannel> accept_channel(int listener);
// Of kStandardStreams: this process' standard input and output, of a bench on another machine.
inline constexpr std::string_view kStandardStreams = "-";
Result<LineChannel> connect_channel(const std::string& name);

}  // namespace phub::bench
