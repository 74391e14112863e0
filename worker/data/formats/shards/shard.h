// A file of a set in several files.
//
// Owned by its set. Any thread may open it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/formats/byte_source.h"
#include "worker/data/formats/fingerprint.h"
#include "worker/data/formats/shards/pass.h"

namespace phub::data {

class Shard {
 public:
  virtual ~Shard() = default;

  // What messages call it. Printable.
  virtual std::string name() const = 0;
  // The file, to be read. Error: kDataLoss when it has changed.
  virtual Result<std::shared_ptr<const ByteSource>> open() const = 0;
  // Adds where the file is, its size and when it was written.
  virtual void add_to(Fingerprint& number) const = 0;
  // Whether it is on a server, and then whether another version of it would have another number.
  virtual bool is_far() const { return false; }
  virtual bool is_known() const { return true; }
  // What this object takes.
  virtual std::uint64_t memory_bytes() const = 0;
};

using Shards = std::vector<std::unique_ptr<const Shard>>;

// Files of this machine. Each is opened anew for each read. Errors: those of SourceFile::open.
Result<Shards> local_shards(const std::vector<std::filesystem::path>& paths);

// Files of servers, which are asked for their sizes, several at a time. Errors: those of
// WebFiles::open, and of pass_over.
Result<Shards> web_shards(const std::vector<std::string>& urls, const PassOptions& options);

}  // namespace phub::data
