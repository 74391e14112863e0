#include "worker/data/formats/shards/shard_names.h"

#include <algorithm>
#include <array>

namespace phub::data {
namespace {

constexpr std::array kCompressed = {".gz", ".tgz", ".bz2", ".xz", ".zst", ".lz4", ".zip"};

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The N of "...-of-N"; empty for another name.
std::string_view total_in(std::string_view name) {
  const std::size_t place = name.rfind("-of-");
  if (place == std::string_view::npos || !all_digits(name.substr(place + 4))) return {};
  return name.substr(place + 4);
}

// train-0.tar.gz, train-0.tgz, train-0.tfrecord.gz and train-0-of-2.gz.
bool is_compressed_shard(std::string_view name, ShardKind kind) {
  for (const std::string_view ending : kCompressed) {
    if (!name.ends_with(ending)) continue;
    if (ending == ".tgz") return kind == ShardKind::kTar;
    return is_shard_name(name.substr(0, name.size() - ending.size()), kind);
  }
  return false;
}

}  // namespace

std::vector<std::string> words_of(Split split) {
  if (split == Split::kTrain) return {"train"};
  return {"test", "val", "validation"};
}

bool is_shard_name(std::string_view name, ShardKind kind) {
  if (kind == ShardKind::kTar) return name.ends_with(".tar");
  return name.ends_with(".tfrecord") || !total_in(name).empty();
}

Status check_not_compressed(std::string_view name, ShardKind kind, const std::string& shown) {
  if (!is_compressed_shard(name, kind)) return {};
  return {Code::kInvalidArgument,
          shown +
              " is compressed; decompress it: samples are read where they lie, and JPEG and "
              "PNG hardly become smaller"};
}

Status check_complete(const std::vector<std::string>& names, const std::string& shown) {
  // If the first one's total is that of all, so is every other's.
  const std::string total(total_in(names.front()));
  if (total.empty()) return {};
  const auto of_it = std::count_if(names.begin(), names.end(), [&](const std::string& other) {
    return total_in(other) == total;
  });
  if (total.size() <= 6 && std::stol(total) == of_it &&
      static_cast<std::size_t>(of_it) == names.size()) {
    return {};
  }
  return {Code::kInvalidArgument, shown + " is one of " + total + " shards, but " +
                                      std::to_string(of_it) + " of them and " +
                                      std::to_string(names.size()) +
                                      " shards in all are there; fetch or remove the others"};
}

}  // namespace phub::data
