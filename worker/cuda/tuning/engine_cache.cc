#include "worker/cuda/tuning/engine_cache.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "common/base/whole_file.h"

namespace phub::nn::cuda {
namespace {

using nlohmann::json;

json to_json(const EngineScope& scope, const std::string& key, const MeasuredEngine& measured) {
  return {{"cudnn", scope.cudnn_version},
          {"device", scope.device},
          {"graph", key},
          {"engine", measured.choice.engine},
          {"knobs", measured.choice.knobs},
          {"microseconds", measured.microseconds}};
}

MeasuredEngine engine_of(const json& object) {
  MeasuredEngine measured;
  object.at("engine").get_to(measured.choice.engine);
  object.at("knobs").get_to(measured.choice.knobs);
  object.at("microseconds").get_to(measured.microseconds);
  return measured;
}

MeasuredBlock block_of(const json& object) {
  const json& times = object.at("microseconds");
  return {times.at(0).get<double>(), times.at(1).get<double>()};
}

}  // namespace

Result<EngineCache> EngineCache::open(std::filesystem::path file, EngineScope scope,
                                      std::string_view committed) {
  const Status readable = check_readable_to_end(file.string());
  if (!readable.ok()) return readable.with_context("engine cache");
  EngineCache cache(std::move(file), std::move(scope));
  std::istringstream known{std::string(committed)};
  PHUB_RETURN_IF_ERROR(cache.read(known, "the engines that come with phub-worker"));
  std::ifstream in(cache.file_);
  PHUB_RETURN_IF_ERROR(cache.read(in, cache.file_.string()));
  return cache;
}

Status EngineCache::read(std::istream& lines, const std::string& name) {
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    try {
      const json object = json::parse(line);
      if (object.at("cudnn").get<std::int64_t>() != scope_.cudnn_version) continue;
      if (object.at("device").get<std::string>() != scope_.device) continue;
      if (object.contains("block")) {
        blocks_[object.at("block").get<std::string>()] = block_of(object);
      } else {
        engines_[object.at("graph").get<std::string>()] = engine_of(object);
      }
    } catch (const json::exception& error) {
      return Status(Code::kDataLoss, name + ":" + std::to_string(number) +
                                         ": no engine of the autotuner (" + error.what() +
                                         "); remove the line or the file");
    }
  }
  return {};
}

std::optional<MeasuredEngine> EngineCache::find(const std::string& graph_key) const {
  const auto found = engines_.find(graph_key);
  if (found == engines_.end()) return std::nullopt;
  return found->second;
}

Status EngineCache::add(const std::string& graph_key, const MeasuredEngine& measured) {
  engines_[graph_key] = measured;
  return append(to_json(scope_, graph_key, measured).dump() + '\n');
}

std::optional<MeasuredBlock> EngineCache::find_block(const std::string& block_key) const {
  const auto found = blocks_.find(block_key);
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

Status EngineCache::add_block(const std::string& block_key, const std::string& name,
                              const MeasuredBlock& measured) {
  blocks_[block_key] = measured;
  const json line = {{"cudnn", scope_.cudnn_version},
                     {"device", scope_.device},
                     {"block", block_key},
                     {"fused", measured.is_fused()},
                     {"microseconds", {measured.fused, measured.unfused}},
                     {"name", name}};
  return append(line.dump() + '\n');
}

Status EngineCache::append(const std::string& line) const {
  if (file_.empty()) return {};
  // One write for the whole line, so that runs which share the file do not cut each other's.
  PHUB_RETURN_IF_ERROR(check_readable_to_end(file_));
  std::ofstream out(file_, std::ios::app);
  out.write(line.data(), static_cast<std::streamsize>(line.size()));
  out.flush();
  if (out) return {};
  return errno_status("the autotuner's cache " + file_.string(), Code::kUnavailable);
}

}  // namespace phub::nn::cuda
