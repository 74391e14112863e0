#include "worker/data/encoded/open_set.h"

#include "common/base/check.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/packed/packed_set.h"

namespace phub::data {

Result<std::unique_ptr<SampleSet>> open_set(DataFormat format, const std::filesystem::path& path,
                                            Split split) {
  PHUB_CHECK(is_encoded(format), "a format of encoded images");
  if (format == DataFormat::kFolder) return open_folder(path, split);
  if (format == DataFormat::kWebDataset) return open_webdataset(path, split);
  if (format == DataFormat::kTfRecord) return open_tfrecord(path, split);
  return open_packed(path, split);
}

}  // namespace phub::data
