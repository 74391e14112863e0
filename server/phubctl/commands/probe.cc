// probe.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/address.h"
#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/commands/plans.h"
#include "server/phubctl/commands/progress_line.h"
#include "server/phubctl/commands/replanned.h"

namespace phub::phubctl {
namespace {

using Probes = control::Probes::Stub;
using nlohmann::ordered_json;

constexpr int kServersMax = 64;
constexpr double kGigabit = 1e9 / 8;  // bytes
constexpr std::chrono::milliseconds kMeasureTimeout{90'000};

struct Failure {
  int from, to;
  Status why;
};

bool is_refusal(const Status& status) {
  return status.code() == Code::kPermissionDenied || status.code() == Code::kUnauthenticated;
}

// Measures one pair after another.
class Survey {
 public:
  Survey(const Session& session, const ProbeOptions& options)
      : session_(session), options_(options) {}

  Status run() {
    PHUB_RETURN_IF_ERROR(find_servers());
    const ProgressLine progress;
    const int count = probe_.servers_size();
    for (int from = 0; from < count; ++from) {
      for (int to = from + 1; to < count; ++to) {
        progress.show(fmt::format("{} to {}", address(from), address(to)));
        const Status measured = measure(from, to);
        if (is_refusal(measured)) return measured;  // others would refuse too
        if (!measured.ok()) failures_.push_back({from, to, measured});
      }
    }
    return {};
  }

  control::Probe& probe() { return probe_; }
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  const std::string& address(int server) const { return probe_.servers(server).address(); }

  Status find_servers() {
    control::ListRacksReply reply;
    PHUB_RETURN_IF_ERROR(
        session_.client.call(&control::Racks::Stub::List, control::ListRacksRequest(), reply));
    for (const control::RackInfo& rack : reply.racks()) {
      for (const std::string& server : rack.servers()) {
        control::ProbedServer& added = *probe_.add_servers();
        added.set_rack(rack.name());
        added.set_address(server);
      }
    }
    if (probe_.servers_size() < 2) {
      return {Code::kFailedPrecondition,
              "the server knows no other server to measure with; give rack and directory in its "
              "configuration, and see `phubctl racks`"};
    }
    if (probe_.servers_size() > kServersMax) {
      return {Code::kFailedPrecondition,
              fmt::format("the racks have {} servers, and a probe is of at most {}",
                          probe_.servers_size(), kServersMax)};
    }
    return {};
  }

  Result<AdminClient*> client_of(int server) {
    std::unique_ptr<AdminClient>& client = clients_[server];
    if (!client) {
      PHUB_ASSIGN_OR_RETURN(client, session_.connect(address(server)));
    }
    return client.get();
  }

  Status measure(int from, int to) {
    PHUB_ASSIGN_OR_RETURN(AdminClient* const there, client_of(to));
    PHUB_ASSIGN_OR_RETURN(AdminClient* const here, client_of(from));
    PHUB_ASSIGN_OR_RETURN(const Address place, parse_address(address(to)));
    control::ListenReply listens;
    const Status opened = there->call(&Probes::Listen, control::ListenRequest(), listens);
    if (!opened.ok()) return opened.with_context(address(to));
    control::MeasureRequest request;
    request.set_address(
        to_string(Address{.host = place.host, .port = static_cast<std::uint16_t>(listens.port())}));
    request.set_ticket(listens.ticket());
    request.set_seconds(options_.seconds);
    request.set_bytes(std::uint64_t{options_.mib} << 20U);
    control::MeasureReply reply;
    const Status measured = here->call(&Probes::Measure, request, reply, kMeasureTimeout);
    if (!measured.ok()) return measured.with_context(address(from));
    add(from, to, reply.there());
    add(to, from, reply.back());
    return {};
  }

  void add(int from, int to, const control::ProbedLink& link) {
    control::ProbedLink& added = *probe_.add_links();
    added = link;
    added.set_from(static_cast<std::uint32_t>(from));
    added.set_to(static_cast<std::uint32_t>(to));
  }

  const Session& session_;
  const ProbeOptions& options_;
  control::Probe probe_;
  std::vector<Failure> failures_;
  std::map<int, std::unique_ptr<AdminClient>> clients_;
};

// From the row's server to the column's.
template <typename Text>
std::string matrix_text(const control::Probe& probe, const std::string& what, const Text& text) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> cells;
  for (const control::ProbedLink& link : probe.links()) {
    cells[{link.from(), link.to()}] = text(link);
  }
  const auto count = static_cast<std::uint32_t>(probe.servers_size());
  std::vector<std::string> titles = {what, "RACK", "SERVER"};
  for (std::uint32_t to = 0; to < count; ++to) titles.push_back(fmt::format("TO {}", to));
  Table table(std::move(titles), 3);
  for (std::uint32_t from = 0; from < count; ++from) {
    const control::ProbedServer& server = probe.servers(static_cast<int>(from));
    std::vector<std::string> row = {fmt::format("from {}", from), server.rack(), server.address()};
    for (std::uint32_t to = 0; to < count; ++to) {
      const auto cell = cells.find({from, to});
      row.push_back(cell != cells.end() ? cell->second : from == to ? "" : "failed");
    }
    table.add(std::move(row));
  }
  return table.to_string();
}

std::string probe_text(const control::Probe& probe) {
  const auto latency = [](const control::ProbedLink& link) {
    return human_time(link.alpha_seconds());
  };
  const auto rate = [](const control::ProbedLink& link) {
    return fmt::format("{:.3g} Gb/s", 1 / (link.seconds_per_byte() * kGigabit));
  };
  return matrix_text(probe, "LATENCY", latency) + "\n" + matrix_text(probe, "RATE", rate);
}

std::string survey_json(const control::Probe& probe, const std::vector<Failure>& failures,
                        const std::vector<Replanned>& jobs) {
  ordered_json failed = ordered_json::array();
  for (const Failure& failure : failures) {
    failed.push_back({{"from", failure.from}, {"to", failure.to}, {"why", failure.why.message()}});
  }
  ordered_json all = {{"probe", ordered_json::parse(message_json(probe))},
                      {"failures", std::move(failed)},
                      {"jobs", ordered_json::parse(replanned_json(jobs))}};
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Status show_last(const Session& session) {
  PHUB_ASSIGN_OR_RETURN(const control::Probe probe, last_probe(session));
  if (probe.servers().empty()) {
    return {Code::kNotFound, "the server keeps no probe; measure with `phubctl probe`"};
  }
  PHUB_ASSIGN_OR_RETURN(const std::vector<Replanned> jobs, replan_all(session, probe));
  print(session.as_json ? survey_json(probe, {}, jobs)
                        : fmt::format("probe of {}\n", time_text(probe.unix_seconds())) +
                              probe_text(probe) + replanned_text(jobs));
  return {};
}

std::string failures_text(const control::Probe& probe, const std::vector<Failure>& failures) {
  std::string text;
  for (const Failure& failure : failures) {
    text += fmt::format("failed: {} to {}: {}\n", probe.servers(failure.from).address(),
                        probe.servers(failure.to).address(), failure.why.message());
  }
  return text;
}

}  // namespace

Status probe(const Session& session, const ProbeOptions& options) {
  if (options.last) return show_last(session);
  Survey survey(session, options);
  PHUB_RETURN_IF_ERROR(survey.run());
  control::Probe& probe = survey.probe();
  const std::vector<Failure>& failures = survey.failures();
  if (probe.links().empty()) {
    return failures.front().why.with_context("no link could be measured, the first one");
  }
  control::KeepRequest request;
  *request.mutable_probe() = probe;
  control::KeepReply kept;
  PHUB_RETURN_IF_ERROR(session.client.call(&Probes::Keep, request, kept));
  probe.set_unix_seconds(kept.unix_seconds());
  PHUB_ASSIGN_OR_RETURN(const std::vector<Replanned> jobs, replan_all(session, probe));
  print(session.as_json
            ? survey_json(probe, failures, jobs)
            : probe_text(probe) + failures_text(probe, failures) +
                  fmt::format("kept at {} {}\n", session.client.address(),
                              kept.is_on_disk() ? "in its state folder"
                                                : "until it stops: it has no state folder") +
                  replanned_text(jobs));
  if (failures.empty()) return {};
  return {Code::kUnavailable, fmt::format("{} of {} pairs could not be measured", failures.size(),
                                          probe.servers_size() * (probe.servers_size() - 1) / 2)};
}

}  // namespace phub::phubctl
