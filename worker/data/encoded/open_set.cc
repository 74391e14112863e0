#include "worker/data/encoded/open_set.h"

#include "common/base/check.h"
#include "worker/data/formats/packed/packed_set.h"

namespace phub::data {

Result<std::unique_ptr<SampleSet>> open_set(DataFormat format, const std::filesystem::path& path,
                                            Split split, const OpenOptions& options) {
  PHUB_CHECK(is_encoded(format), "a format of encoded images");
  if (format == DataFormat::kFolder) return open_folder(path, split);
  if (format == DataFormat::kWebDataset) return open_webdataset(path, split, options);
  if (format == DataFormat::kTfRecord) return open_tfrecord(path, split, {}, options);
  return open_packed(path, split);
}

}  // namespace phub::data
