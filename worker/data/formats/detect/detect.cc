#include "worker/data/formats/detect/detect.h"

#include <string>
#include <vector>

#include "common/base/words.h"
#include "common/text/url.h"
#include "worker/data/formats/packed/packed_set.h"
#include "worker/data/formats/shards/shard_files.h"
#include "worker/data/formats/shards/shard_urls.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

constexpr Words<SampleFormat, 4> kFormatWords = {{"packed", "webdataset", "tfrecord", "folder"}};

// Shards that cannot be read are there, too: opening them says why.
bool has_shards(const fs::path& path, Split split, ShardKind kind) {
  const auto shards = shards_of(path, split, kind);
  return shards.has_value() || shards.error().code() != Code::kNotFound;
}

bool has_folder(const fs::path& path) {
  std::error_code error;
  for (fs::directory_iterator entry(path / "train", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_directory(unknown)) return true;
  }
  return false;
}

// No folder of a server can be listed.
SampleFormat format_of_url(const std::string& url) {
  const auto kind = kind_of_urls(url);
  if (!kind) return SampleFormat::kPacked;
  return *kind == ShardKind::kTar ? SampleFormat::kWebDataset : SampleFormat::kTfRecord;
}

}  // namespace

std::string_view name_of(SampleFormat format) { return kFormatWords.of(format); }

Result<SampleFormat> detect(const fs::path& path, Split split) {
  if (is_url(path.native())) return format_of_url(path.native());
  std::error_code error;
  if (!fs::exists(path, error)) {
    return Status(Code::kNotFound, printable(path) + " does not exist; give a data set");
  }
  if (!fs::is_directory(path, error)) return SampleFormat::kPacked;
  std::vector<SampleFormat> found;
  if (fs::exists(packed_file(path, split), error)) found.push_back(SampleFormat::kPacked);
  if (has_shards(path, split, ShardKind::kTar)) found.push_back(SampleFormat::kWebDataset);
  if (has_shards(path, split, ShardKind::kTfRecord)) found.push_back(SampleFormat::kTfRecord);
  if (has_folder(path)) found.push_back(SampleFormat::kFolder);
  if (found.size() == 1) return found.front();
  const std::string name(name_of(split));
  if (found.empty()) {
    return Status(Code::kNotFound, printable(path) + " has no " + name + ".phub, " + name +
                                       "-*.tar, " + name +
                                       "-*.tfrecord or train/CLASS; give a "
                                       "folder that has one of them");
  }
  return Status(Code::kInvalidArgument,
                printable(path) + " has two formats, " + std::string(name_of(found[0])) + " and " +
                    std::string(name_of(found[1])) + "; leave one of them there");
}

Result<std::unique_ptr<SampleSet>> open_sample_set(const fs::path& path, Split split,
                                                   const OpenOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const SampleFormat format, detect(path, split));
  switch (format) {
    case SampleFormat::kPacked:
      return open_packed(path, split);
    case SampleFormat::kWebDataset:
      return open_webdataset(path, split, options);
    case SampleFormat::kTfRecord:
      return open_tfrecord(path, split, {}, options);
    case SampleFormat::kFolder:
      break;
  }
  return open_folder(path, split);
}

Result<CheckReport> check(const fs::path& path, Split split, const OnProgress& on_progress) {
  PHUB_ASSIGN_OR_RETURN(const auto set, open_sample_set(path, split));
  return check(*set, on_progress);
}

}  // namespace phub::data
