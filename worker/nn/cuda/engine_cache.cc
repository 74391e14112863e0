#include "worker/nn/cuda/engine_cache.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

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

}  // namespace

Result<EngineCache> EngineCache::open(std::filesystem::path file, EngineScope scope) {
  EngineCache cache(std::move(file), std::move(scope));
  std::ifstream in(cache.file_);
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    try {
      const json object = json::parse(line);
      if (object.at("cudnn").get<std::int64_t>() != cache.scope_.cudnn_version) continue;
      if (object.at("device").get<std::string>() != cache.scope_.device) continue;
      MeasuredEngine measured;
      object.at("engine").get_to(measured.choice.engine);
      object.at("knobs").get_to(measured.choice.knobs);
      object.at("microseconds").get_to(measured.microseconds);
      cache.engines_[object.at("graph").get<std::string>()] = std::move(measured);
    } catch (const json::exception& error) {
      return Status(Code::kDataLoss, cache.file_.string() + ":" + std::to_string(number) +
                                         ": no engine of the autotuner (" + error.what() +
                                         "); remove the line or the file");
    }
  }
  return cache;
}

std::optional<MeasuredEngine> EngineCache::find(const std::string& graph_key) const {
  const auto found = engines_.find(graph_key);
  if (found == engines_.end()) return std::nullopt;
  return found->second;
}

Status EngineCache::add(const std::string& graph_key, const MeasuredEngine& measured) {
  engines_[graph_key] = measured;
  if (file_.empty()) return {};
  // One write for the whole line, so that runs which share the file do not cut each other's.
  const std::string line = to_json(scope_, graph_key, measured).dump() + '\n';
  std::ofstream out(file_, std::ios::app);
  out.write(line.data(), static_cast<std::streamsize>(line.size()));
  out.flush();
  if (out) return {};
  return errno_status("the autotuner's cache " + file_.string(), Code::kUnavailable);
}

}  // namespace phub::nn::cuda
