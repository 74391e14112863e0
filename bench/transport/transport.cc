// "phub-bench transport": writes with immediate between two processes, without anything above.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/compare/report.h"
#include "bench/transport/perftest.h"
#include "common/transport/link/link_end.h"
#include "common/transport/tcp/congestion.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/port_choice.h"

namespace phub::bench {
namespace {

using transport::LinkEnd;
using transport::LinkOptions;
using Clock = std::chrono::steady_clock;

struct MeasuredRow {
  std::string system;
  std::string what;
  Blocks values;  // by block: bytes per second, or seconds
  bool is_latency = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of the end with this index (0 or 1), its device opened.
Result<LinkOptions> link_of(const TransportOptions& options, unsigned index) {
  LinkOptions link{.device = nullptr, .bytes = options.bytes, .waiting = options.waiting};
  if (options.transport != "verbs") return link;
  std::vector<std::string> names = options.devices;
  if (names.size() > 1) names = {names[index]};
  PHUB_ASSIGN_OR_RETURN(const auto devices, transport::verbs::list_devices());
  PHUB_ASSIGN_OR_RETURN(const auto choice, transport::verbs::choose_port(devices, names));
  PHUB_ASSIGN_OR_RETURN(const auto gid,
                        transport::verbs::choose_gid(choice.port, std::nullopt, std::nullopt));
  PHUB_ASSIGN_OR_RETURN(link.device,
                        transport::verbs::open_device(choice.device.name, choice.port.number,
                                                      static_cast<std::uint8_t>(gid.index)));
  return link;
}

// What the two processes do in step, block by block. The sender's clock runs until the receiver
// has said that everything is there.
Result<double> bandwidth(LinkEnd& end, bool sender, const TransportOptions& options,
                         std::uint32_t batch) {
  const auto start = Clock::now();
  if (sender) {
    PHUB_RETURN_IF_ERROR(end.send(options.writes, batch));
    PHUB_RETURN_IF_ERROR(end.receive(1));
  } else {
    PHUB_RETURN_IF_ERROR(end.receive(options.writes));
    PHUB_RETURN_IF_ERROR(end.send(1, 1));
  }
  return static_cast<double>(options.writes) * options.bytes / seconds_since(start);
}

Result<double> latency(LinkEnd& end, bool sender, const TransportOptions& options) {
  std::vector<double> halves;
  for (std::uint64_t i = 0; i < options.round_trips; ++i) {
    const auto start = Clock::now();
    if (sender) PHUB_RETURN_IF_ERROR(end.send(1, 1));
    PHUB_RETURN_IF_ERROR(end.receive(1));
    if (!sender) PHUB_RETURN_IF_ERROR(end.send(1, 1));
    halves.push_back(seconds_since(start) / 2);
  }
  return median(halves);
}

// One end's part of a run, of which the sender's (end 0's) results are what counts; whether the
// right bytes arrived. `between` runs after each block while the other end waits.
Result<bool> run_end(const TransportOptions& options, const LinkOptions& link, unsigned index,
                     UniqueFd socket, std::vector<MeasuredRow>& all,
                     const std::function<Status()>& between) {
  PHUB_ASSIGN_OR_RETURN(const auto end, LinkEnd::create(link, index, std::move(socket)));
  const bool sender = index == 0;
  // Not counted: the first writes touch every page for the first time.
  const auto warm_up = bandwidth(*end, sender, options, options.batches.back());
  if (!warm_up) return warm_up.error();
  for (unsigned block = 0; block < options.blocks; ++block) {
    for (std::size_t i = 0; i < options.batches.size(); ++i) {
      const std::size_t turn = (i + block) % options.batches.size();  // each is first in its turn
      PHUB_ASSIGN_OR_RETURN(const double rate,
                            bandwidth(*end, sender, options, options.batches[turn]));
      all[turn].values.push_back({rate});
    }
    PHUB_ASSIGN_OR_RETURN(const double half, latency(*end, sender, options));
    all[options.batches.size()].values.push_back({half});
    PHUB_RETURN_IF_ERROR(between());
  }
  return end->verified();
}

std::vector<MeasuredRow> phub_rows(const TransportOptions& options) {
  std::vector<MeasuredRow> all;
  for (const std::uint32_t batch : options.batches) {
    all.push_back({"phub", fmt::format("bandwidth, batches of {}", batch), {}, false});
  }
  all.push_back({"phub", "half a round trip", {}, true});
  return all;
}

Status run_perftests(const LinkOptions& link, const TransportOptions& options, Places& places,
                     std::vector<MeasuredRow>& all) {
  const std::string& own = link.device->name;
  PerftestRun run{.server_device = options.devices.size() > 1 ? options.devices[1] : own,
                  .client_device = own,
                  .gid_index = link.device->address.gid_index,
                  .bytes = options.bytes};
  std::size_t row = options.batches.size() + 1;
  for (const std::string program : kPerftests) {
    run.program = program;
    run.is_latency = program.ends_with("_lat");
    run.iterations = run.is_latency ? options.round_trips : options.writes;
    PHUB_ASSIGN_OR_RETURN(const double value, run_perftest(run, places));
    if (all.size() == row) {
      all.push_back(
          {program, run.is_latency ? "half a round trip" : "bandwidth", {}, run.is_latency});
    }
    all[row++].values.push_back({value});
  }
  return {};
}

// Against its peer: bandwidth over bandwidth, the peer's time over ours; above 1 phub is better.
std::string ratio_text(const MeasuredRow& row, const std::vector<MeasuredRow>& all) {
  if (row.system != "phub") return "";
  std::string text;
  for (const MeasuredRow& peer : all) {
    if (peer.system == "phub" || peer.is_latency != row.is_latency) continue;
    const Spread spread =
        row.is_latency ? ratio(peer.values, row.values) : ratio(row.values, peer.values);
    text += fmt::format("{}{:.2f}x [{:.2f} .. {:.2f}] of {}", text.empty() ? "" : ", ",
                        spread.median, spread.min, spread.max, peer.system);
  }
  return text;
}

void print(const TransportOptions& options, const std::vector<MeasuredRow>& all, bool verified) {
  Table table({"system", "measure", "median", "against its peer, above 1 phub is better"}, 1);
  for (const MeasuredRow& row : all) {
    const double middle = median(all_values(row.values));
    if (options.json) {
      const nlohmann::ordered_json object = {
          {"bench", "transport"},
          {"system", row.system},
          {"transport", options.transport},
          {"measure", row.what},
          {"bytes", options.bytes},
          {"blocks", options.blocks},
          {row.is_latency ? "seconds_p50" : "gigabytes_per_second",
           row.is_latency ? middle : middle / kGiga},
          {"verified", verified}};
      fmt::print("{}\n", object.dump());
    }
    table.add({row.system, row.what,
               row.is_latency ? format_seconds(middle) : fmt::format("{:.3f} GB/s", middle / kGiga),
               ratio_text(row, all)});
  }
  if (options.json) return;
  fmt::print("{}: {} a write, {} blocks in turns, {}\n{}", options.transport,
             format_bytes(options.bytes), options.blocks, verified ? "verified" : "WRONG BYTES",
             table.to_string());
}

Result<bool> measure(const TransportOptions& options, UniqueFd socket,
                     std::vector<MeasuredRow>& all) {
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  PHUB_ASSIGN_OR_RETURN(const LinkOptions link, link_of(options, 0));
  return run_end(options, link, 0, std::move(socket), all, [&] {
    return options.perftest ? run_perftests(link, options, *places, all) : Status();
  });
}

// The two ends of a tcp connection, prepared as the product's are.
Result<std::pair<UniqueFd, UniqueFd>> loopback_pair() {
  PHUB_ASSIGN_OR_RETURN(const auto control, transport::CongestionControl::parse("auto"));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(address);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  control.prepare(listener.get());
  control.prepare(own.get());
  if (::bind(listener.get(), generic, bytes) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &bytes) != 0 ||
      ::connect(own.get(), generic, bytes) != 0) {
    return errno_status("a connection over the loopback interface");
  }
  UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!other) return errno_status("accept");
  return std::pair(std::move(own), std::move(other));
}

// The other process's; its exit code.
int run_receiver(const TransportOptions& options, UniqueFd socket) {
  const auto link = link_of(options, 1);
  if (!link && options.devices.size() < 2) return 1;  // the sender says the same
  std::vector<MeasuredRow> ignored = phub_rows(options);
  const Result<bool> verified =
      link ? run_end(options, *link, 1, std::move(socket), ignored, [] { return Status(); })
           : link.error();
  if (!verified) std::fprintf(stderr, "phub-bench: %s\n", verified.error().to_string().c_str());
  return verified && *verified ? 0 : 1;
}

}  // namespace

Status run_transport(const TransportOptions& options) {
  auto sockets = loopback_pair();
  if (!sockets) return sockets.error();
  auto& [own, other] = *sockets;
  const pid_t child = ::fork();  // before any device is opened
  if (child == 0) {
    own = {};
    ::_exit(run_receiver(options, std::move(other)));
  }
  other = {};
  std::vector<MeasuredRow> all = phub_rows(options);
  const Result<bool> sent = measure(options, std::move(own), all);
  int ended = 0;
  ::waitpid(child, &ended, 0);
  if (!sent) return sent.error();
  const bool verified = *sent && WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
  print(options, all, verified);
  return verified ? Status() : Status(Code::kDataLoss, "wrong bytes arrived");
}

}  // namespace phub::bench
