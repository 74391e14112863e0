#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/explain/input.h"
#include "server/phubctl/explain/racks.h"

namespace phub::phubctl {
namespace {

struct Rates {
  double rounds = 0.0;  // per second
  double received = 0.0;
  double sent = 0.0;
};

double rounds_of(const control::JobStatistics& statistics) {
  return statistics.chunks() == 0 ? 0.0
                                  : static_cast<double>(statistics.chunks_completed()) /
                                        static_cast<double>(statistics.chunks());
}

double difference(std::uint64_t now, std::uint64_t before) {
  return now < before ? 0.0 : static_cast<double>(now - before);
}

Rates rates_of(const control::JobInfo& job, const Look& before, const Look& now) {
  const double seconds = std::chrono::duration<double>(now.at - before.at).count();
  for (const control::JobInfo& old : before.jobs.jobs()) {
    if (old.job_id() != job.job_id() || seconds <= 0.0) continue;
    const control::JobStatistics& was = old.statistics();
    const control::JobStatistics& is = job.statistics();
    return {.rounds = std::max(0.0, rounds_of(is) - rounds_of(was)) / seconds,
            .received = difference(is.bytes_received(), was.bytes_received()) / seconds,
            .sent = difference(is.bytes_sent(), was.bytes_sent()) / seconds};
  }
  return {};
}

std::string rate_text(double bytes_per_second) {
  return human_bytes(static_cast<std::uint64_t>(bytes_per_second)) + "/s";
}

std::string heading(const control::ServerInfo& server) {
  // A tenant is not told how much memory all of them use.
  const std::string memory =
      server.resident_bytes() == 0 ? "" : "  memory " + human_bytes(server.resident_bytes());
  return fmt::format("phub-server {}  {}  up {}{}  live jobs {}\n", server.version(),
                     server.draining() ? "draining" : "serving",
                     human_seconds(server.uptime_seconds()), memory, server.jobs());
}

// "#######---": how busy a core is, for the eye.
std::string bar_of(double share) {
  constexpr std::size_t kWidth = 20;
  const auto full = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kWidth));
  return std::string(full, '#') + std::string(kWidth - full, '-');
}

std::string cores_text(const Look& now, std::size_t columns) {
  Table table(">CORE|>CPU|>BUSY||>CONNECTIONS|>QUEUED|JOBS");
  for (const control::CoreInfo& core : now.server.cores()) {
    std::uint64_t queued = 0;
    std::string names;
    for (const control::CoreJob& job : core.jobs()) {
      queued += job.queued_pushes();
      names += (names.empty() ? "" : ", ") + job.name();
    }
    table.add({std::to_string(core.core()), core.cpu() < 0 ? "-" : std::to_string(core.cpu()),
               human_share(core.busy_share()), bar_of(core.busy_share()),
               std::to_string(core.connections()), human_count(queued),
               names.empty() ? "-" : names});
  }
  constexpr std::size_t kCpu = 1, kBar = 3, kConnections = 4, kQueued = 5, kJobs = 6;
  return table.to_string(
      {.columns = columns, .elastic = kJobs, .least_first = {kBar, kCpu, kQueued, kConnections}});
}

// "compute 74.0 %", the longest part of a round.
std::string longest_part_text(const control::JobTiming& timing) {
  if (timing.round_seconds() <= 0.0) return "-";
  const auto [name, seconds] = longest_part(timing);
  return fmt::format("{} {}", name, human_share(seconds / timing.round_seconds()));
}

std::string jobs_text(const Look& before, const Look& now, std::size_t columns) {
  Table table(
      "JOB|TENANT|STATE|>WORKERS|RACK|>ROUNDS|>ROUNDS/S|>RECEIVED|>SENT|>ROUND|>INPUT|LONGEST "
      "PART");
  for (const control::JobInfo& job : now.jobs.jobs()) {
    const bool is_live =
        job.state() == control::JOB_STATE_WAITING || job.state() == control::JOB_STATE_RUNNING;
    if (!is_live) continue;
    const Rates rates = rates_of(job, before, now);
    const auto input = input_share(job);
    table.add({job.spec().name(), job.tenant().empty() ? "-" : job.tenant(), enum_word(job.state()),
               workers_text(job), job.rack().empty() ? "-" : job.rack(),
               human_count(job.statistics().rounds()), fmt::format("{:.1f}", rates.rounds),
               rate_text(rates.received), rate_text(rates.sent),
               job.timing().round_seconds() > 0.0 ? human_time(job.timing().round_seconds()) : "-",
               input ? human_share(*input) : "-", longest_part_text(job.timing())});
  }
  if (table.empty()) return "no live jobs\n";
  constexpr std::size_t kJob = 0, kTenant = 1, kRack = 4, kRounds = 5, kReceived = 7, kSent = 8,
                        kRound = 9, kInput = 10, kLongestPart = 11;
  return table.to_string(
      {.columns = columns,
       .elastic = kJob,
       .least_first = {kRack, kSent, kRounds, kReceived, kRound, kTenant, kInput, kLongestPart}});
}

std::string drops_text(const Look& now) {
  std::string text;
  for (const control::Drop& drop : now.server.drops()) {
    if (drop.count() == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "\nrefused input: " : ", ", drop.cause(),
                        human_count(drop.count()));
  }
  return text.empty() ? text : text + "\n";
}

// At most so many characters of a line, of which the last then says that more follow.
std::string cut_line(const std::string& line, std::size_t columns) {
  std::size_t characters = 0;
  std::size_t last = 0;  // where the last one that fits begins
  for (std::size_t i = 0; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0U) == 0x80U) continue;  // goes on with one
    if (++characters > columns) return line.substr(0, last) + ">";
    last = i;
  }
  return line;
}

}  // namespace

std::string top_text(const Look& before, const Look& now, std::size_t columns) {
  return heading(now.server) + "\n" + cores_text(now, columns) + "\n" +
         jobs_text(before, now, columns) + drops_text(now);
}

std::string top_json(const Look& before, const Look& now) {
  using nlohmann::ordered_json;
  ordered_json all = {{"server", ordered_json::parse(message_json(now.server))}};
  all.update(ordered_json::parse(message_json(now.jobs)));
  ordered_json& rates = all["rates"] = ordered_json::array();
  for (const control::JobInfo& job : now.jobs.jobs()) {
    const Rates of_job = rates_of(job, before, now);
    rates.push_back({{"job_id", job.job_id()},
                     {"rounds_per_second", of_job.rounds},
                     {"bytes_received_per_second", of_job.received},
                     {"bytes_sent_per_second", of_job.sent}});
  }
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string screen_of(const std::string& text, std::size_t columns, std::size_t lines) {
  std::vector<std::string_view> all;
  for (std::size_t begin = 0; begin < text.size(); begin += all.back().size() + 1) {
    all.push_back(std::string_view(text).substr(begin, text.find('\n', begin) - begin));
  }
  const std::size_t room = lines - std::min<std::size_t>(lines, 1);  // below it the cursor stays
  std::string screen = "\x1b[H";                                     // to the upper left corner
  for (std::size_t line = 0; line < std::min(room, all.size()); ++line) {
    const bool is_last = line + 1 == room && all.size() > room;
    const std::string shown =
        is_last ? fmt::format("... {} more lines", all.size() - line) : std::string(all[line]);
    screen += cut_line(shown, columns) + "\x1b[K\r\n";
  }
  return screen + "\x1b[J";
}

}  // namespace phub::phubctl
