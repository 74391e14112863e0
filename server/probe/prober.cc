#include "server/probe/prober.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "common/base/log_value.h"
#include "common/rpc/address.h"
#include "server/doctor/peer/listen.h"
#include "server/doctor/peer/peer.h"
#include "server/tenants/secret.h"

namespace phub::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{10'000};
constexpr milliseconds kEnding{3000};     // that a measurement before may take to be put away
constexpr milliseconds kMeeting{60'000};  // the most, on however slow a link

Status check(const ProbeTask& task) {
  if (!(task.seconds >= Prober::kSecondsMin && task.seconds <= Prober::kSecondsMax)) {
    return {Code::kInvalidArgument,
            fmt::format("seconds: {} to {} are allowed, not {}", Prober::kSecondsMin,
                        Prober::kSecondsMax, task.seconds)};
  }
  if (task.bytes > Prober::kBytesMax) {
    return {Code::kInvalidArgument,
            fmt::format("bytes: at most {} are allowed", Prober::kBytesMax)};
  }
  return {};
}

}  // namespace

Prober::~Prober() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

Status Prober::begin() {
  std::unique_lock lock(mutex_);
  if (busy_ && !is_awaited_) {
    is_awaited_ = true;
    ended_.wait_for(lock, kEnding, [this] { return !busy_; });
    is_awaited_ = false;
  }
  if (busy_) {
    return {Code::kResourceExhausted,
            "this server takes part in another measurement; links are measured one at a time: try "
            "again in a moment"};
  }
  busy_ = true;
  return {};
}

void Prober::end() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  ended_.notify_one();
}

Result<ProbePort> Prober::listen() {
  PHUB_RETURN_IF_ERROR(begin());
  if (thread_.joinable()) thread_.join();  // of the last one, which has ended
  const auto open = [&]() -> Result<ProbePort> {
    PHUB_ASSIGN_OR_RETURN(std::string ticket, random_secret());
    doctor::ListenOptions options{.address = {.host = options_.host, .port = 0},
                                  .tls = options_.tls,
                                  .paths = {},
                                  .choices = {},
                                  .limits = {.meeting = kMeeting, .stop = &stop_},
                                  .once = true,
                                  .wants_certificates = options_.require_client_certificates,
                                  .ticket = ticket,
                                  .patience = kPatience};
    PHUB_ASSIGN_OR_RETURN(std::shared_ptr<doctor::Listener> listener,
                          doctor::Listener::create(options));
    const std::uint16_t port = listener->address().port;
    thread_ = std::thread([this, listener = std::move(listener)]() mutable {
      const Status served = listener->serve([](const std::string&) {});
      if (!served.ok()) {
        spdlog::warn("event=probe_failed reason={}", log_value(served.message()));
      }
      listener.reset();
      end();
    });
    return ProbePort{.port = port, .ticket = std::move(ticket)};
  };
  auto opened = open();
  if (!opened) end();
  return opened;
}

Result<ProbeFigures> Prober::measure(const ProbeTask& task) {
  PHUB_RETURN_IF_ERROR(check(task));
  const Result<Address> address = parse_address(task.address);
  if (!address) return address.error().with_context("address");
  if (options_.is_known && !options_.is_known(address->host)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("address: no server of the racks that this one knows is at {}; links "
                              "between those are measured, and `phubctl racks` shows them",
                              address->host));
  }
  PHUB_RETURN_IF_ERROR(begin());
  const doctor::Meeting meeting = doctor::meet({.address = *address,
                                                .tls = options_.client_tls,
                                                .paths = {},
                                                .choices = {},
                                                .seconds = task.seconds,
                                                .bytes = task.bytes,
                                                .has_verbs = false,
                                                .has_messages = true,
                                                .ticket = task.ticket,
                                                .limits = {.meeting = kMeeting, .stop = &stop_}});
  end();
  if (!meeting.met.ok()) return meeting.met;
  const doctor::LinkTrial& tcp = *meeting.tcp;
  if (!tcp.status.ok()) return tcp.status;
  if (!tcp.verified_here || !tcp.verified_there) {
    return Status(Code::kInternal, task.address + ": other bytes arrived than were sent");
  }
  return ProbeFigures{.alpha_seconds = tcp.ping_seconds,
                      .there_seconds_per_byte = 1 / tcp.bytes_per_second_there,
                      .back_seconds_per_byte = 1 / tcp.bytes_per_second_back,
                      .message_seconds = tcp.message_seconds};
}

}  // namespace phub::server
