#include "bench/processes/process_group.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
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
  group->present_.resize(options.workers);
  group->pids_.resize(options.workers);
  std::string control;
  PHUB_ASSIGN_OR_RETURN(const UniqueFd listener, listen_abstract(control));
  const bool one_each = options.commands.size() == options.workers;
  for (std::size_t i = 0; i < options.commands.size(); ++i) {
    ChildProcess::Options child{
        .name = options.name, .command = options.commands[i], .log_path = options.log_path};
    child.command.insert(child.command.end(), {"--control", control});
    if (one_each) {
      child.command.insert(child.command.end(), {"--index", std::to_string(i)});
      child.name = fmt::format("{} worker {}", options.name, i);
    }
    PHUB_ASSIGN_OR_RETURN(auto process, ChildProcess::start(child));
    group->children_.push_back(std::move(process));
  }
  PHUB_RETURN_IF_ERROR(group->accept_workers(listener.get()));
  return group;
}

Status ProcessGroup::accept_workers(int listener) {
  const Deadline deadline = after(options_.start_timeout);
  constexpr std::chrono::milliseconds kLookForTheDead{200};
  for (auto missing = present_.begin();
       (missing = std::find(present_.begin(), present_.end(), false)) != present_.end();) {
    std::vector<bool> readable;
    Status ready = wait_readable({listener}, std::min(deadline, after(kLookForTheDead)), readable);
    if (ready.ok()) {
      PHUB_ASSIGN_OR_RETURN(LineChannel channel, accept_channel(listener));
      PHUB_RETURN_IF_ERROR(greet(std::move(channel), deadline));
      continue;
    }
    if (ready.code() != Code::kDeadlineExceeded) return ready;
    for (const auto& child : children_) {
      if (const std::string how = child->how_it_ended(); !how.empty()) {
        return Status(Code::kUnavailable, how + child->log_tail());
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(Code::kDeadlineExceeded,
                    fmt::format("{} worker {} did not start within {} s{}", options_.name,
                                missing - present_.begin(), options_.start_timeout.count() / 1000,
                                children_.front()->log_tail()));
    }
  }
  return {};
}

Status ProcessGroup::greet(LineChannel channel, Deadline deadline) {
  std::optional<std::string> line;
  while (!(line = channel.take_line())) {
    std::vector<bool> readable;
    PHUB_RETURN_IF_ERROR(wait_readable({channel.fd()}, deadline, readable));
    PHUB_RETURN_IF_ERROR(channel.read_some().with_context(options_.name + " hello"));
  }
  std::istringstream words(*line);
  std::string verb;
  std::uint32_t index = 0;
  int pid = 0;
  words >> verb >> index >> pid;
  if (!words || index >= options_.workers || present_[index]) {
    return Status(Code::kInternal, fmt::format("{}: odd greeting '{}'", options_.name, *line));
  }
  pids_[index] = pid;
  std::string rest;
  std::getline(words >> std::ws, rest);
  if (verb != "hello") {
    return Status(Code::kAborted, fmt::format("{}: {}", describe(index), rest));
  }
  if (index == 0) note_ = rest;
  present_[index] = true;
  channels_[index] = std::move(channel);
  return {};
}

Result<std::vector<std::string>> ProcessGroup::ask(const std::string& line,
                                                   std::chrono::milliseconds timeout) {
  const Deadline deadline = after(timeout);
  for (std::uint32_t i = 0; i < options_.workers; ++i) {
    if (!channels_[i].write_line(line).ok()) return lost(i);
  }
  std::vector<std::string> replies(options_.workers);
  std::vector<std::uint32_t> open(options_.workers);
  for (std::uint32_t i = 0; i < options_.workers; ++i) open[i] = i;
  while (!open.empty()) {
    std::vector<int> fds;
    fds.reserve(open.size());
    for (const std::uint32_t i : open) fds.push_back(channels_[i].fd());
    std::vector<bool> readable;
    const Status ready = wait_readable(fds, deadline, readable);
    if (!ready.ok()) {
      return ready.with_context(fmt::format("{} did not reply '{}'", describe(open[0]), line));
    }
    std::vector<std::uint32_t> still_open;
    for (std::size_t k = 0; k < open.size(); ++k) {
      const std::uint32_t i = open[k];
      if (readable[k] && !channels_[i].read_some().ok()) return lost(i);
      auto reply = channels_[i].take_line();
      if (!reply) {
        still_open.push_back(i);
      } else if (reply->starts_with("error ")) {
        return Status(Code::kAborted,
                      fmt::format("{}: {}{}", describe(i), reply->substr(6), obituary()));
      } else {
        replies[i] = *std::move(reply);
      }
    }
    open = std::move(still_open);
  }
  return replies;
}

Status ProcessGroup::wait_readable(std::vector<int> fds, Deadline deadline,
                                   std::vector<bool>& readable) {
  std::vector<pollfd> polled;
  polled.reserve(fds.size() + 1);
  fds.push_back(options_.interrupt_fd);  // poll ignores a negative one
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  int ready = 0;
  do {
    ready = ::poll(polled.data(), polled.size(), poll_timeout(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return errno_status("poll");
  if (ready == 0) return Status(Code::kDeadlineExceeded, "deadline exceeded");
  if (polled.back().revents != 0) return Status(Code::kAborted, "interrupted");
  readable.clear();
  for (const pollfd& entry : polled) readable.push_back(entry.revents != 0);
  readable.pop_back();
  return {};
}

std::string ProcessGroup::describe(std::uint32_t index) const {
  return fmt::format("{} worker {} (pid {})", options_.name, index, pids_[index]);
}

Status ProcessGroup::lost(std::uint32_t index) {
  return Status(Code::kUnavailable,
                fmt::format("{} closed its control channel{}", describe(index), obituary()));
}

std::string ProcessGroup::obituary() {
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
