#include <utility>

#include "worker/data/formats/shards/shard.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

class LocalShard final : public Shard {
 public:
  explicit LocalShard(const SourceFile& file) : path_(file.path()), identity_(file.identity()) {}

  std::string name() const override { return printable(path_); }
  Result<std::shared_ptr<const ByteSource>> open() const override {
    PHUB_ASSIGN_OR_RETURN(SourceFile file, SourceFile::reopen(path_, identity_));
    return std::shared_ptr<const ByteSource>(std::make_shared<SourceFile>(std::move(file)));
  }
  void add_to(Fingerprint& number) const override {
    std::error_code error;
    number.add(std::filesystem::absolute(path_, error).native())
        .add(identity_.bytes)
        .add(static_cast<std::uint64_t>(identity_.written_s))
        .add(static_cast<std::uint64_t>(identity_.written_ns));
  }
  std::uint64_t memory_bytes() const override { return sizeof(*this) + path_.native().size(); }

 private:
  std::filesystem::path path_;
  FileIdentity identity_;
};

}  // namespace

Result<Shards> local_shards(const std::vector<std::filesystem::path>& paths) {
  Shards shards;
  for (const std::filesystem::path& path : paths) {
    PHUB_ASSIGN_OR_RETURN(const SourceFile file, SourceFile::open(path));
    shards.push_back(std::make_unique<LocalShard>(file));
  }
  return shards;
}

}  // namespace phub::data
