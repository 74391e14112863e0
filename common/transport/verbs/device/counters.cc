#include "common/transport/verbs/device/counters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <system_error>

#include "common/base/first_line.h"
#include "common/base/folder.h"

namespace phub::transport::verbs {
namespace {

constexpr std::uint64_t kWordBytes = 4;

bool parse(const std::string& text, std::uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

struct Names {
  CounterKind kind;
  std::vector<std::string_view> counters;
};

const std::array<Names, 4>& errors() {
  static const std::array<Names, 4> kAll = {{
      {CounterKind::kLinkErrors,
       {"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
        "port_rcv_remote_physical_errors", "local_link_integrity_errors", "rx_icrc_encapsulated",
        "send_err"}},
      {CounterKind::kLosses,
       {"port_xmit_discards", "excessive_buffer_overrun_errors", "VL15_dropped", "out_of_sequence",
        "out_of_seq_request", "packet_seq_err", "rcvd_seq_err", "implied_nak_seq_err",
        "local_ack_timeout_err", "retry_exceeded_err", "completer_retry_err"}},
      {CounterKind::kReceiversNotReady,
       {"out_of_buffer", "rnr_nak_retry_err", "rcvd_rnr_err", "send_rnr_err",
        "retry_rnr_exceeded_err"}},
      {CounterKind::kRefused,
       {"port_xmit_constraint_errors", "port_rcv_constraint_errors", "req_remote_access_errors",
        "resp_remote_access_errors", "req_remote_invalid_request", "resp_local_length_error"}},
  }};
  return kAll;
}

bool is_congestion(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  for (const std::string_view part : {"cnp", "ecn", "pause", "pfc", "xmit_wait", "congest",
                                      "retrans", "slow_restart", "duplicate_request"}) {
    if (lower.find(part) != std::string::npos) return true;
  }
  return false;
}

// A name under which drivers count a quantity, and how many units of it one count is.
struct CounterName {
  std::string_view name;
  std::uint64_t unit = 1;
};

std::optional<std::uint64_t> first_of(const std::vector<PortCounter>& counters,
                                      std::initializer_list<CounterName> sources) {
  for (const CounterName& source : sources) {
    for (const PortCounter& counter : counters) {
      if (counter.name == source.name) return counter.value * source.unit;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<PortCounter> read_counters(const std::string& sysfs_root, const std::string& device,
                                       std::uint32_t port) {
  std::vector<PortCounter> counters;
  const std::string ports = sysfs_root + "/class/infiniband/" + device + "/ports/";
  for (const char* folder : {"/counters/", "/hw_counters/"}) {
    const std::string path = ports + std::to_string(port) + folder;
    for (const std::string& name : names_in(path)) {
      PortCounter counter{.name = name};
      const bool is_setting = name == "lifespan";  // of the kernel's copy of the others
      if (!is_setting && parse(first_line(path + name), counter.value)) {
        counters.push_back(std::move(counter));
      }
    }
  }
  return counters;
}

// The architecture's names first, then those of drivers that count bytes themselves (EFA, bnxt_re),
// then Soft-RoCE's.
Traffic traffic_of(const std::vector<PortCounter>& counters) {
  return {
      .bytes_sent = first_of(counters, {{"port_xmit_data", kWordBytes}, {"tx_bytes"}}),
      .bytes_received = first_of(counters, {{"port_rcv_data", kWordBytes}, {"rx_bytes"}}),
      .packets_sent = first_of(counters, {{"port_xmit_packets"}, {"tx_pkts"}, {"sent_pkts"}}),
      .packets_received = first_of(counters, {{"port_rcv_packets"}, {"rx_pkts"}, {"rcvd_pkts"}})};
}

CounterKind kind_of(std::string_view counter_name) {
  for (const Names& names : errors()) {
    const auto& all = names.counters;
    if (std::find(all.begin(), all.end(), counter_name) != all.end()) return names.kind;
  }
  return is_congestion(counter_name) ? CounterKind::kCongestion : CounterKind::kOther;
}

const char* name_of(CounterKind kind) {
  static constexpr std::array kNames = {"",        "link errors", "losses", "receivers not ready",
                                        "refused", "congestion"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace phub::transport::verbs
