#include "worker/cli/stop_signal.h"

#include <csignal>
#include <cstdlib>

#include "common/base/check.h"

namespace phub {
namespace {

sigset_t stopping() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t signals = stopping();
  PHUB_CHECK(pthread_sigmask(SIG_BLOCK, &signals, &before_) == 0, "signals can be blocked");
  watcher_ = std::thread([this] { watch(); });
}

StopSignal::~StopSignal() {
  finished_ = true;
  pthread_kill(watcher_.native_handle(), SIGTERM);  // to the watcher alone
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignal::watch() {
  const sigset_t signals = stopping();
  for (int signal = 0; sigwait(&signals, &signal) == 0 && !finished_;) {
    if (!source_.request_stop()) std::_Exit(EXIT_FAILURE);
  }
}

}  // namespace phub
