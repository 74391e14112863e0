// Images as files in a folder for each class.
#include "worker/data/formats/folder/folder_index.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

class FolderSet final : public SampleSet {
 public:
  explicit FolderSet(FolderIndex index) : index_(std::move(index)) {}

  std::uint64_t samples() const override { return index_.samples(); }
  const std::vector<std::string>& classes() const override { return index_.classes(); }
  std::uint16_t label(std::uint64_t sample) const override { return index_.label(sample); }
  std::string name(std::uint64_t sample) const override {
    return printable(index_.path_of(sample));
  }
  std::uint64_t index_bytes() const override { return index_.index_bytes(); }
  std::uint64_t fingerprint() const override { return index_.fingerprint(); }
  std::uint64_t content_number() const override { return index_.content_number(); }

  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override {
    std::uint64_t bytes = 0;
    PHUB_ASSIGN_OR_RETURN(const UniqueFd image, index_.open_image(sample, bytes));
    if (bytes == 0 || bytes > kMaxSampleBytes) {
      return Status(Code::kDataLoss, name(sample) + " has " + std::to_string(bytes) +
                                         " bytes; an image has 1 to " +
                                         std::to_string(kMaxSampleBytes) + ": fetch it again");
    }
    buffer.resize(bytes);
    if (!read_fully(image.get(), 0, buffer)) {
      if (errno != 0) return errno_status("cannot read " + name(sample), Code::kDataLoss);
      return Status(Code::kDataLoss,
                    name(sample) + " became shorter while it was read; fetch it again");
    }
    return std::span<const std::uint8_t>(buffer);
  }

 private:
  FolderIndex index_;
};

}  // namespace

Result<std::unique_ptr<SampleSet>> open_folder(const std::filesystem::path& path, Split split) {
  PHUB_ASSIGN_OR_RETURN(FolderIndex index, FolderIndex::create(path, split));
  return std::unique_ptr<SampleSet>(std::make_unique<FolderSet>(std::move(index)));
}

}  // namespace phub::data
