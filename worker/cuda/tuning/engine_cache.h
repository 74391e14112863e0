// Which engine was fastest for a graph, remembered in a file between runs.
//
// One JSON object a line: {"cudnn": 91900, "device": "NVIDIA H200", "graph": OpGraph::key(),
// "engine": 63, "knobs": [[2, 14]], "microseconds": 41.5}. Lines of other versions and devices are
// kept and not used; the last line of a graph counts. A file may be shared by runs: lines are
// appended whole. Owned by the backend; one thread.
//
// Beside them, whether a block of fusion (fusion_search.h) is done fused: {"cudnn": .., "device":
// .., "block": its key, "fused": true, "microseconds": [fused, unfused], "name": for people}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "worker/cuda/tuning/engine_choice.h"

namespace phub::nn::cuda {

// What a choice is good for.
struct EngineScope {
  std::int64_t cudnn_version = 0;
  std::string device;
};

struct MeasuredEngine {
  EngineChoice choice;
  double microseconds = 0.0;
};

// Microseconds of a block's two ways.
struct MeasuredBlock {
  double fused = 0.0;
  double unfused = 0.0;

  bool is_fused() const { return fused <= unfused; }
};

// What this project brings: worker/cuda/data/engines.jsonl, a line for each graph and block that
// was measured on a machine of ours.
std::string_view committed_engines();

class EngineCache {
 public:
  // An empty path: remembers in memory only. A file that is not there is made by the first add.
  // `committed`: such lines that are known before the file's, which count where both have one.
  // Errors: kDataLoss names the line that is no such object.
  static Result<EngineCache> open(std::filesystem::path file, EngineScope scope,
                                  std::string_view committed = {});

  std::optional<MeasuredEngine> find(const std::string& graph_key) const;
  // Errors: kUnavailable if the file cannot be written; the choice is remembered in memory.
  Status add(const std::string& graph_key, const MeasuredEngine& measured);
  std::size_t size() const { return engines_.size(); }

  std::optional<MeasuredBlock> find_block(const std::string& block_key) const;
  bool has_blocks() const { return !blocks_.empty(); }
  // As add(). `name` is for people.
  Status add_block(const std::string& block_key, const std::string& name,
                   const MeasuredBlock& measured);

 private:
  EngineCache(std::filesystem::path file, EngineScope scope)
      : file_(std::move(file)), scope_(std::move(scope)) {}

  Status read(std::istream& lines, const std::string& name);
  Status append(const std::string& line) const;

  std::filesystem::path file_;
  EngineScope scope_;
  std::map<std::string, MeasuredEngine> engines_;
  std::map<std::string, MeasuredBlock> blocks_;
};

}  // namespace phub::nn::cuda
