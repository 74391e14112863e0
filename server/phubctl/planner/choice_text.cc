// A choice in words.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/text/table.h"
#include "server/phubctl/planner/choice.h"

namespace phub::phubctl {
namespace {

constexpr std::uint32_t kFusedShare = 4;  // of a chunk: keys up to that share one (plan.h)

std::string rest_of(const Choice& choice, const PlannedJob& job, const std::string& has) {
  const Alternative& taken = choice.taken();
  std::string text = fmt::format("takes {}: {}", taken.shape, human_time(taken.seconds));
  for (const Alternative& one : choice.alternatives) {
    if (one.shape == taken.shape || one.shape == "flat" || !one.obstacle.empty()) continue;
    text += one.seconds > taken.seconds ? fmt::format("; {} would take {:.2f} times as long",
                                                      one.shape, one.seconds / taken.seconds)
                                        : fmt::format("; {} would take as long", one.shape);
  }
  text += "\n";
  for (const Alternative& one : choice.alternatives) {
    if (one.shape != has || one.seconds <= taken.seconds) continue;
    text += fmt::format("the job has {}: close it and create it again to change that\n", has);
  }
  if (choice.flat().seconds < taken.seconds) {
    text += fmt::format(
        "flat would be faster ({}): leave out racks, and list the servers of all racks in the "
        "workers' configuration\n",
        human_time(choice.flat().seconds));
  }
  text += choice.chunk_bytes == job.chunk_bytes
              ? fmt::format("chunks of {} are right", human_bytes(job.chunk_bytes))
              : fmt::format("chunks of {} would take {} ({} now)", human_bytes(choice.chunk_bytes),
                            human_time(choice.chunk_seconds), human_bytes(job.chunk_bytes));
  text += fmt::format("; keys of at most {} share one\n",
                      human_bytes(choice.chunk_bytes / kFusedShare));
  for (const std::string& assumption : choice.assumptions) text += "assumed: " + assumption + "\n";
  return text;
}

}  // namespace

std::string choice_text(const Choice& choice, const PlannedJob& job, const std::string& has) {
  Table table("SHAPE|>PREDICTED|>OF IT LATENCY|BOUND BY|");
  for (const Alternative& one : choice.alternatives) {
    const bool is_taken = one.shape == choice.taken().shape;
    table.add({one.shape, human_time(one.seconds), human_time(one.latency_seconds), one.bound,
               is_taken ? "taken" : one.obstacle});
  }
  return table.to_string() + rest_of(choice, job, has);
}

std::string choice_json(const Choice& choice, const PlannedJob& job, const std::string& has,
                        std::int64_t probed) {
  using nlohmann::ordered_json;
  ordered_json racks = ordered_json::array();
  for (const RackWorkers& rack : job.racks) {
    racks.push_back({{"name", rack.rack}, {"workers", rack.workers}});
  }
  ordered_json alternatives = ordered_json::array();
  for (const Alternative& one : choice.alternatives) {
    ordered_json entry = {{"shape", one.shape},
                          {"seconds", one.seconds},
                          {"latency_seconds", one.latency_seconds},
                          {"bound", one.bound}};
    if (!one.obstacle.empty()) entry["obstacle"] = one.obstacle;
    alternatives.push_back(std::move(entry));
  }
  ordered_json all = {{"racks", std::move(racks)},
                      {"bytes", job.bytes},
                      {"probe_unix_seconds", probed},
                      {"shape", choice.taken().shape},
                      {"alternatives", std::move(alternatives)},
                      {"flat_is_faster", choice.flat().seconds < choice.taken().seconds},
                      {"chunk_bytes", choice.chunk_bytes},
                      {"chunk_seconds", choice.chunk_seconds},
                      {"fused_key_bytes", choice.chunk_bytes / kFusedShare},
                      {"assumptions", choice.assumptions}};
  if (!has.empty()) all["has_shape"] = has;
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub::phubctl
