#include "bench/base/worker_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <vector>

namespace phub::bench {
namespace {

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Result<std::string> run(Task& task, unsigned warm_up, unsigned iterations) {
  PHUB_RETURN_IF_ERROR(task.fill(0));
  for (unsigned i = 0; i < warm_up; ++i) PHUB_RETURN_IF_ERROR(task.iterate());
  std::vector<std::int64_t> stamps;
  stamps.reserve(iterations + 1);
  stamps.push_back(now_ns());
  for (unsigned i = 0; i < iterations; ++i) {
    PHUB_RETURN_IF_ERROR(task.iterate());
    stamps.push_back(now_ns());
  }
  return fmt::format("done {}", fmt::join(stamps, " "));
}

Result<std::string> reply_to(const std::string& line, Task& task) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "run") {
    unsigned warm_up = 0;
    unsigned iterations = 0;
    words >> warm_up >> iterations;
    return run(task, warm_up, iterations);
  }
  if (verb == "verify") {
    std::uint32_t round = 0;
    words >> round;
    const Result<std::uint64_t> sum = task.verify(round);
    if (sum) return fmt::format("verified {:016x}", sum.value());
    if (sum.error().code() != Code::kDataLoss) return sum.error();
    return fmt::format("wrong {}", one_line(sum.error().message()));
  }
  return Status(Code::kInvalidArgument, fmt::format("unknown command '{}'", line));
}

Result<LineChannel> greet(const WorkerHello& hello, const char* verb, const std::string& text) {
  PHUB_ASSIGN_OR_RETURN(LineChannel channel, connect_channel(hello.control));
  PHUB_RETURN_IF_ERROR(channel.write_line(
      fmt::format("{} {} {} {}", verb, hello.index, ::getpid(), one_line(text))));
  return channel;
}

}  // namespace

void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

Status serve(const WorkerHello& hello, Task& task) {
  return serve(hello, [&](const std::string& line) { return reply_to(line, task); });
}

Status serve(const WorkerHello& hello, const Replies& replies) {
  PHUB_ASSIGN_OR_RETURN(LineChannel channel, greet(hello, "hello", hello.note));
  for (;;) {
    Result<std::string> line = channel.read_line();
    if (!line || *line == "quit") return {};
    const Result<std::string> reply = replies(*line);
    const std::string text =
        reply ? *reply : fmt::format("error {}", one_line(reply.error().message()));
    PHUB_RETURN_IF_ERROR(channel.write_line(text));
  }
}

Status tell(const WorkerHello& hello, Status error) {
  (void)greet(hello, "failed", error.message());
  return error;
}

int exit_code_of(const Status& ended) {
  if (ended.ok()) return 0;
  fmt::print(stderr, "{}\n", ended.message());
  return 1;
}

}  // namespace phub::bench
