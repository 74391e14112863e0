// The daemon's log: lines for a descriptor that its reader may have stopped reading.
//
// Who logs never waits: a thread of the log's own writes the lines. At most kLinesMax wait for it,
// then the oldest go. When the descriptor takes nothing for kPatience, lines are dropped until it
// does again. What was dropped is counted, and said in the log as soon as that is possible.
//
// Owned by main, which makes it before other threads and destroys it after them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace spdlog::details {
class thread_pool;
}

namespace phub::server {

class LineSink;

class Log {
 public:
  static constexpr std::size_t kLinesMax = 4096;
  static constexpr std::chrono::milliseconds kPatience{500};

  // From now on this is spdlog's default logger. The log's thread has the signal mask of the
  // caller. `descriptor` stays the caller's. REQUIRES: `level` is a word of spdlog's.
  Log(const std::string& level, int descriptor);

  // Nothing is logged from now on. Lines that wait are written, or dropped when nobody reads.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::uint64_t lines_dropped() const;  // any thread

 private:
  const std::shared_ptr<LineSink> sink_;
  std::shared_ptr<spdlog::details::thread_pool> thread_;
};

}  // namespace phub::server
