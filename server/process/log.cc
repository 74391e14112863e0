#include "server/process/log.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <string_view>
#include <utility>

#include "common/base/log_value.h"

namespace phub::server {

// Called by the log's thread only.
class LineSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit LineSink(int descriptor) : descriptor_(descriptor) {}

  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const bool is_written = (dropped_since_ == 0 || write(drops_line(message))) && write(message);
    if (is_written) return;
    ++dropped_since_;
    dropped_.fetch_add(1, std::memory_order_relaxed);  // for people: nothing is ordered by it
  }
  void flush_() override {}

 private:
  spdlog::details::log_msg drops_line(const spdlog::details::log_msg& before) {
    text_ =
        fmt::format("event=log_dropped lines={} reason=\"nobody read the log\"", dropped_since_);
    return {before.time, {}, before.logger_name, spdlog::level::warn, text_};
  }

  // A message is one line: what would start another one, or turn this one, is escaped.
  bool write(const spdlog::details::log_msg& message) {
    const std::string shown = one_line({message.payload.data(), message.payload.size()});
    spdlog::details::log_msg whole = message;
    whole.payload = shown;
    spdlog::memory_buf_t line;
    formatter_->format(whole, line);
    if (!write(std::string_view(line.data(), line.size()))) return false;
    dropped_since_ = 0;
    return true;
  }

  // A pipe that polls as writable takes PIPE_BUF bytes without waiting.
  bool write(std::string_view text) {
    if (is_cut_ && !write_some("\n")) return false;
    is_cut_ = false;
    while (!text.empty()) {
      const std::size_t written = write_some(text.substr(0, PIPE_BUF));
      if (written == 0) return false;
      text.remove_prefix(written);
      is_cut_ = !text.empty();
    }
    return true;
  }

  std::size_t write_some(std::string_view text) {
    pollfd room{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    const int wait_ms = is_stalled_ ? 0 : static_cast<int>(Log::kPatience.count());
    is_stalled_ = poll(&room, 1, wait_ms) <= 0;
    if (is_stalled_) return 0;
    return static_cast<std::size_t>(
        std::max<ssize_t>(0, ::write(descriptor_, text.data(), text.size())));
  }

  const int descriptor_;
  std::atomic<std::uint64_t> dropped_{0};
  std::uint64_t dropped_since_ = 0;  // the last line that was written
  bool is_stalled_ = false;
  bool is_cut_ = false;  // the last line was written in part
  std::string text_;
};

Log::Log(const std::string& level, int descriptor)
    : sink_(std::make_shared<LineSink>(descriptor)),
      thread_(std::make_shared<spdlog::details::thread_pool>(kLinesMax, 1)) {
  auto logger = std::make_shared<spdlog::async_logger>(
      "phub-server", sink_, thread_, spdlog::async_overflow_policy::overrun_oldest);
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%e level=%l %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

Log::~Log() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::null_sink_mt>()));
}

std::uint64_t Log::lines_dropped() const { return sink_->dropped() + thread_->overrun_counter(); }

}  // namespace phub::server
