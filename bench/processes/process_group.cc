#include "bench/processes/process_group.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>

namespace phub::bench {
namespace {

constexpr std::chrono::milliseconds kStopTimeout{5'000};
// A process that dies closes its connections first; its exit status comes a little later.
constexpr std::chrono::milliseconds kObituaryTimeout{500};

Deadline after(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + timeout;
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::start(const Options& options) {
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(options));
  group->channels_.resize(options.workers);
  group->pids_.resize(options.workers);
  if (options.by_streams) {
    PHUB_RETURN_IF_ERROR(group->start_by_streams());
    return group;
  }
  std::string control = options.control_path;
  PHUB_ASSIGN_OR_RETURN(const UniqueFd listener,
                        control.empty() ? listen_abstract(control) : listen_path(control));
  for (std::size_t i = 0; i < options.commands.size(); ++i) {
    PHUB_ASSIGN_OR_RETURN(auto process, group->start_child(i, control, -1));
    group->children_.push_back(std::move(process));
  }
  PHUB_RETURN_IF_ERROR(group->accept_workers(listener.get()));
  return group;
}

Result<std::unique_ptr<ChildProcess>> ProcessGroup::start_child(std::size_t index,
                                                                const std::string& control,
                                                                int channel_fd) {
  ChildProcess::Options child{.name = options_.name,
                              .command = options_.commands[index],
                              .log_path = options_.log_path,
                              .channel_fd = channel_fd};
  child.command.insert(child.command.end(), {"--control", control});
  if (options_.commands.size() == options_.workers) {
    child.command.insert(child.command.end(), {"--index", std::to_string(index)});
    child.name = fmt::format("{} worker {}", options_.name, index);
  }
  return ChildProcess::start(child);
}

Status ProcessGroup::start_by_streams() {
  std::vector<LineChannel> channels;
  for (std::size_t i = 0; i < options_.commands.size(); ++i) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return errno_status("socketpair");
    }
    channels.emplace_back(UniqueFd(ends[0]));
    const UniqueFd theirs(ends[1]);
    PHUB_ASSIGN_OR_RETURN(auto process, start_child(i, std::string(kStandardStreams), ends[1]));
    children_.push_back(std::move(process));
  }
  const Deadline deadline = after(options_.start_timeout);
  for (LineChannel& channel : channels) {
    const Status greeted = greet(std::move(channel), deadline);
    if (greeted.ok() || greeted.code() == Code::kAborted) {
      PHUB_RETURN_IF_ERROR(greeted);
    } else {
      return {greeted.code(), greeted.message() + obituary()};
    }
  }
  return {};
}

Status ProcessGroup::accept_workers(int listener) {
  const Deadline deadline = after(options_.start_timeout);
  constexpr std::chrono::milliseconds kLookForTheDead{200};
  for (auto missing = pids_.begin();
       (missing = std::find(pids_.begin(), pids_.end(), 0)) != pids_.end();) {
    const auto ready = wait_readable({listener}, std::min(deadline, after(kLookForTheDead)));
    if (ready) {
      PHUB_ASSIGN_OR_RETURN(LineChannel channel, accept_channel(listener));
      PHUB_RETURN_IF_ERROR(greet(std::move(channel), deadline));
      continue;
    }
    if (ready.error().code() != Code::kDeadlineExceeded) return ready.error();
    for (const auto& child : children_) {
      const bool has_said_why = std::find(pids_.begin(), pids_.end(), child->pid()) != pids_.end();
      if (options_.may_fail && has_said_why) continue;
      if (const std::string how = child->how_it_ended(); !how.empty()) {
        return Status(Code::kUnavailable, how + child->log_tail());
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(Code::kDeadlineExceeded,
                    fmt::format("{} worker {} did not start within {} s{}", options_.name,
                                missing - pids_.begin(), options_.start_timeout.count(),
                                children_.front()->log_tail()));
    }
  }
  return {};
}

Status ProcessGroup::greet(LineChannel channel, Deadline deadline) {
  std::optional<std::string> line;
  while (!(line = channel.take_line())) {
    if (auto ready = wait_readable({channel.fd()}, deadline); !ready) return ready.error();
    PHUB_RETURN_IF_ERROR(channel.read_some().with_context(options_.name + " hello"));
  }
  std::istringstream words(*line);
  std::string verb;
  std::uint32_t index = 0;
  int pid = 0;
  words >> verb >> index >> pid;
  if (!words || index >= options_.workers || pids_[index] != 0) {
    return Status(Code::kInternal, fmt::format("{}: odd greeting '{}'", options_.name, *line));
  }
  pids_[index] = pid;
  std::string rest;
  std::getline(words >> std::ws, rest);
  if (verb != "hello" && options_.may_fail) {
    early_.push_back({index, "error " + rest, std::chrono::steady_clock::now()});
    return {};
  }
  if (verb != "hello") {
    return Status(Code::kAborted, fmt::format("{}: {}", describe(index), rest));
  }
  if (index == 0) note_ = rest;
  channels_[index] = std::move(channel);
  return {};
}

Result<std::vector<std::string>> ProcessGroup::ask(const std::string& line,
                                                   std::chrono::milliseconds timeout) {
  const Deadline deadline = after(timeout);
  tell(line);
  std::vector<std::string> replies(options_.workers);
  std::vector<bool> awaited(options_.workers, true);
  for (auto first = awaited.begin();
       (first = std::find(awaited.begin(), awaited.end(), true)) != awaited.end();) {
    Result<Reply> reply = next_reply(awaited, deadline);
    if (!reply) {
      const auto worker = static_cast<std::uint32_t>(first - awaited.begin());
      return reply.error().with_context(
          fmt::format("{} did not reply '{}'", describe(worker), line));
    }
    if (reply->is_lost()) return lost(reply->worker);
    if (reply->text.starts_with("error ")) {
      return Status(Code::kAborted, fmt::format("{}: {}{}", describe(reply->worker),
                                                reply->text.substr(6), obituary()));
    }
    replies[reply->worker] = std::move(reply->text);
    awaited[reply->worker] = false;
  }
  return replies;
}

void ProcessGroup::tell(const std::string& line) {
  // One that is gone is found by its channel's end.
  for (LineChannel& channel : channels_) (void)channel.write_line(line);
}

Result<ProcessGroup::Reply> ProcessGroup::next_reply(const std::vector<bool>& awaited,
                                                     Deadline deadline) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  for (const Reply& reply : early_) {
    if (awaited[reply.worker]) return reply;
  }
  for (;;) {
    std::vector<int> open;  // -1: not awaited
    for (std::uint32_t i = 0; i < options_.workers; ++i) {
      open.push_back(awaited[i] ? channels_[i].fd() : -1);
      if (!awaited[i]) continue;
      if (auto line = channels_[i].take_line()) return Reply{i, *std::move(line), now()};
    }
    const auto readable = wait_readable(open, deadline);
    if (!readable) return readable.error();
    for (std::uint32_t i = 0; i < options_.workers; ++i) {
      if ((*readable)[i] && !channels_[i].read_some().ok()) return Reply{i, {}, now()};
    }
  }
}

Result<std::vector<bool>> ProcessGroup::wait_readable(std::vector<int> fds,
                                                      Deadline deadline) const {
  fds.push_back(options_.interrupt_fd);
  std::vector<pollfd> polled;
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  int ready = 0;
  do {
    ready = ::poll(polled.data(), polled.size(), poll_timeout(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return errno_status("poll");
  if (ready == 0) return Status(Code::kDeadlineExceeded, "deadline exceeded");
  if (polled.back().revents != 0) return Status(Code::kAborted, "interrupted");
  std::vector<bool> readable;
  for (const pollfd& entry : polled) readable.push_back(entry.revents != 0);
  return readable;
}

std::string ProcessGroup::describe(std::uint32_t index) const {
  return fmt::format("{} worker {} (pid {})", options_.name, index, pids_[index]);
}

Status ProcessGroup::lost(std::uint32_t index) const {
  return Status(Code::kUnavailable,
                fmt::format("{} closed its control channel{}", describe(index), obituary()));
}

std::string ProcessGroup::obituary() const {
  const Deadline deadline = after(kObituaryTimeout);
  for (const auto& child : children_) {
    if (child->await_end(deadline)) return "; " + child->how_it_ended() + child->log_tail();
  }
  return "";
}

void ProcessGroup::stop() {
  for (LineChannel& channel : channels_) (void)channel.write_line("quit");
  const Deadline deadline = after(kStopTimeout);
  for (const auto& child : children_) child->stop(0, deadline);
}

}  // namespace phub::bench
