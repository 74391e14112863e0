#include "worker/cli/stop_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>

namespace phub {

Result<std::unique_ptr<StopSignal>> StopSignal::create() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) return errno_status("pthread_sigmask");
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
  if (signal_fd < 0) return errno_status("signalfd");
  const int finished_fd = eventfd(0, EFD_CLOEXEC);
  if (finished_fd < 0) {
    const Status status = errno_status("eventfd");
    close(signal_fd);
    return status;
  }
  std::unique_ptr<StopSignal> stop(new StopSignal(signal_fd, finished_fd));
  stop->watcher_ = std::thread([watched = stop.get()] { watched->watch(); });
  return stop;
}

StopSignal::~StopSignal() {
  const std::uint64_t one = 1;
  // An eventfd at 0 accepts one.
  [[maybe_unused]] const ssize_t written = ::write(finished_, &one, sizeof(one));
  watcher_.join();
  close(signals_);
  close(finished_);
}

void StopSignal::watch() {
  pollfd events[] = {{signals_, POLLIN, 0}, {finished_, POLLIN, 0}};
  while (true) {
    if (poll(events, 2, -1) < 0) continue;
    if (events[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    if (requested_.exchange(true, std::memory_order_relaxed)) std::_Exit(EXIT_FAILURE);
  }
}

}  // namespace phub
