// A choice in words.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/text/table.h"
#include "server/phubctl/planner/choice.h"

namespace phub::phubctl {
namespace {

std::string size_text(double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

// Which keys would go which way, and why.
std::string groups_text(const Choice& choice, const PlannedJob& job) {
  const KeyGroups& groups = choice.groups;
  if (job.key_bytes.empty()) return "";
  if (std::isinf(groups.threshold)) {
    return "hybrid: no key, however large, is sooner in a chain than with spread\n";
  }
  std::string text =
      fmt::format("hybrid: {} small key(s) ({}) as in spread, {} large one(s) ({}) as in chain",
                  groups.small_keys, size_text(groups.small_bytes), groups.large_keys,
                  size_text(groups.large_bytes));
  if (job.hybrid_bytes) {
    return text + fmt::format("; the job's threshold is {}\n", size_text(groups.threshold));
  }
  if (groups.threshold < fused_key_bytes(job.chunk_bytes)) {
    return text + "; small are those that share chunks, any other is sooner in a chain\n";
  }
  return text + fmt::format(
                    "; a key of {} takes {} either way, smaller ones are sooner with spread "
                    "(--rack-hybrid-bytes {:.0f})\n",
                    size_text(groups.threshold), human_time(groups.seconds), groups.threshold);
}

// Whether fewer bytes between racks are expected to be faster.
std::string compressed_text(const Choice& choice, const PlannedJob& job) {
  if (!choice.compressed) return "";
  const CompressedRacks& compressed = *choice.compressed;
  const std::string figures = fmt::format(
      "{} with {:.3g} % of sums' elements, {} with whole sums", human_time(compressed.seconds),
      100.0 * compressed.density, human_time(compressed.whole_seconds));
  if (job.rack_density > 0.0) {
    return compressed.is_faster()
               ? fmt::format("rack_compress is faster: {}\n", figures)
               : fmt::format(
                     "rack_compress is not faster: {}; leave it out, whole sums lose "
                     "nothing\n",
                     figures);
  }
  return compressed.is_faster()
             ? fmt::format(
                   "rack_compress would be faster: {} (--rack-compress {:.3g}); elements come "
                   "later then\n",
                   figures, compressed.density)
             : fmt::format("rack_compress would not be faster: {}\n", figures);
}

std::string rest_of(const Choice& choice, const PlannedJob& job, const std::string& has) {
  const Alternative& taken = choice.taken();
  std::string text = fmt::format("takes {}: {}", taken.shape, human_time(taken.seconds));
  for (const Alternative& one : choice.alternatives) {
    if (one.shape == taken.shape || one.shape == "flat" || !one.obstacle.empty()) continue;
    text += one.seconds != taken.seconds ? fmt::format("; {} would take {:.2f} times as long",
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
  text += groups_text(choice, job);
  text += compressed_text(choice, job);
  text += choice.chunk_bytes == job.chunk_bytes
              ? fmt::format("chunks of {} are right", human_bytes(job.chunk_bytes))
              : fmt::format("chunks of {} would take {} ({} now)", human_bytes(choice.chunk_bytes),
                            human_time(choice.chunk_seconds), human_bytes(job.chunk_bytes));
  text += fmt::format("; keys of at most {} share one\n",
                      size_text(fused_key_bytes(choice.chunk_bytes)));
  for (const std::string& assumption : choice.assumptions) text += "assumed: " + assumption + "\n";
  return text;
}

}  // namespace

std::string choice_text(const Choice& choice, const PlannedJob& job, const std::string& has) {
  Table table("SHAPE|>PREDICTED|>OF IT LATENCY|>A SMALL KEY|BOUND BY|");
  for (const Alternative& one : choice.alternatives) {
    const bool is_taken = one.shape == choice.taken().shape;
    table.add({one.shape, human_time(one.seconds), human_time(one.latency_seconds),
               human_time(one.small_seconds), one.bound, is_taken ? "taken" : one.obstacle});
  }
  return table.to_string() + rest_of(choice, job, has);
}

std::string choice_json(const Choice& choice, const PlannedJob& job, const std::string& has,
                        std::int64_t probed) {
  using nlohmann::ordered_json;
  ordered_json racks = ordered_json::array();
  for (const RackSpec& rack : job.racks) {
    racks.push_back({{"name", rack.name}, {"workers", rack.workers}});
  }
  ordered_json alternatives = ordered_json::array();
  for (const Alternative& one : choice.alternatives) {
    ordered_json entry = {{"shape", one.shape},
                          {"seconds", one.seconds},
                          {"latency_seconds", one.latency_seconds},
                          {"small_key_seconds", one.small_seconds},
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
                      {"fused_key_bytes", fused_key_bytes(choice.chunk_bytes)},
                      {"assumptions", choice.assumptions}};
  if (choice.compressed) {
    all["rack_compress"] = {{"density", choice.compressed->density},
                            {"is_set", job.rack_density > 0.0},
                            {"seconds", choice.compressed->seconds},
                            {"whole_seconds", choice.compressed->whole_seconds},
                            {"is_faster", choice.compressed->is_faster()}};
  }
  if (!job.key_bytes.empty()) {
    const KeyGroups& groups = choice.groups;
    all["hybrid"] = {{"small_keys", groups.small_keys},
                     {"small_bytes", groups.small_bytes},
                     {"large_keys", groups.large_keys},
                     {"large_bytes", groups.large_bytes}};
    // Left out: no key is large.
    if (!std::isinf(groups.threshold)) all["hybrid"]["threshold_bytes"] = groups.threshold;
  }
  if (!has.empty()) all["has_shape"] = has;
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub::phubctl
