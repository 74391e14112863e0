#include "server/rpc/probes.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "common/base/log_value.h"
#include "common/base/rack.h"
#include "common/config/config.h"
#include "common/rpc/address.h"
#include "server/state/whole_file.h"

namespace phub::server {
namespace {

constexpr int kServersMax = 64;
constexpr float kSecondsMax = 3600.0F;  // of a latency, and for a byte or a message

Status wrong(const std::string& field, const std::string& what) {
  return {Code::kInvalidArgument, "probe." + field + ": " + what};
}

bool is_time(float seconds) {
  return std::isfinite(seconds) && seconds > 0 && seconds <= kSecondsMax;
}

// Nothing where there is no file.
Result<control::Probe> read_probe(const std::string& file) {
  control::Probe probe;
  const Status loaded = load_textproto(file, probe);
  if (loaded.code() == Code::kNotFound) return control::Probe();
  PHUB_RETURN_IF_ERROR(loaded);
  PHUB_RETURN_IF_ERROR(check_probe(probe));
  return probe;
}

}  // namespace

Status check_probe(const control::Probe& probe) {
  if (probe.servers_size() < 2 || probe.servers_size() > kServersMax) {
    return wrong("servers", fmt::format("2 to {} are allowed", kServersMax));
  }
  std::set<std::string> addresses;
  for (const control::ProbedServer& server : probe.servers()) {
    if (!is_rack_name(server.rack())) return wrong("servers.rack", "is no name of a rack");
    const bool is_address = server.address().size() <= kServerAddressCharsMax &&
                            static_cast<bool>(parse_address(server.address()));
    if (!is_address) return wrong("servers.address", "give HOST:PORT");
    if (!addresses.insert(server.address()).second) {
      return wrong("servers.address", "one of them is listed twice");
    }
  }
  const auto count = static_cast<std::uint32_t>(probe.servers_size());
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const control::ProbedLink& link : probe.links()) {
    if (link.from() >= count || link.to() >= count || link.from() == link.to()) {
      return wrong("links", "from and to are two of the servers");
    }
    if (!seen.insert({link.from(), link.to()}).second) {
      return wrong("links", "one of them is listed twice");
    }
    if (!is_time(link.alpha_seconds()) || !is_time(link.seconds_per_byte()) ||
        !is_time(link.message_seconds())) {
      return wrong("links", "times are above 0 and at most an hour");
    }
  }
  return {};
}

ProbeService::ProbeService(ProberOptions options, std::string file, Tenancy* tenancy,
                           const ControlPeers& peers, CallThreads& threads)
    : prober_(std::move(options)),
      file_(std::move(file)),
      authorizer_(tenancy, peers),
      calls_(authorizer_, threads) {
  if (file_.empty()) return;
  auto kept = read_probe(file_);
  if (kept) {
    last_ = std::move(*kept);
  } else {
    spdlog::warn("event=no_probe reason={} cure=\"phubctl probe\"",
                 log_value(kept.error().message()));
  }
}

Status ProbeService::listen(Call& call, const control::ListenRequest& /*request*/,
                            control::ListenReply& reply) {
  call.changed = "";
  PHUB_ASSIGN_OR_RETURN(const ProbePort port, prober_.listen());
  reply.set_port(port.port);
  reply.set_ticket(port.ticket);
  return {};
}

Status ProbeService::measure(Call& call, const control::MeasureRequest& request,
                             control::MeasureReply& reply) {
  call.changed = request.address().substr(0, kServerAddressCharsMax);
  PHUB_ASSIGN_OR_RETURN(const ProbeFigures figures, prober_.measure({.address = request.address(),
                                                                     .ticket = request.ticket(),
                                                                     .seconds = request.seconds(),
                                                                     .bytes = request.bytes()}));
  const std::pair<control::ProbedLink*, double> links[] = {
      {reply.mutable_there(), figures.there_seconds_per_byte},
      {reply.mutable_back(), figures.back_seconds_per_byte}};
  for (const auto& [link, seconds_per_byte] : links) {
    link->set_alpha_seconds(static_cast<float>(figures.alpha_seconds));
    link->set_seconds_per_byte(static_cast<float>(seconds_per_byte));
    link->set_message_seconds(static_cast<float>(figures.message_seconds));
  }
  return {};
}

Status ProbeService::keep(Call& call, const control::KeepRequest& request,
                          control::KeepReply& reply) {
  call.changed = "";
  PHUB_RETURN_IF_ERROR(check_probe(request.probe()));
  control::Probe probe = request.probe();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  probe.set_unix_seconds(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(probe, &text)) {
    return {Code::kInternal, "the probe cannot be written as text"};
  }
  const std::lock_guard lock(mutex_);
  if (!file_.empty()) PHUB_RETURN_IF_ERROR(write_whole_file(file_, text));
  reply.set_is_on_disk(!file_.empty());
  reply.set_unix_seconds(probe.unix_seconds());
  last_ = std::move(probe);
  return {};
}

Status ProbeService::last(Call& /*call*/, const control::LastRequest& /*request*/,
                          control::LastReply& reply) {
  const std::lock_guard lock(mutex_);
  *reply.mutable_probe() = last_;
  return {};
}

}  // namespace phub::server
