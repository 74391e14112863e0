// Opens a set of encoded images in one of three formats (packed/packed_set.h opens the fourth).
// README.md describes them. Of a set with shards a path may be URLs of http or https, as
// common/text/url_list.h has them.
//
// At set-up; any thread. Errors: those of sample_set.h.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "worker/data/formats/index_store.h"
#include "worker/data/formats/progress.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

struct OpenOptions {
  // Is told how many shards have been asked for their size, and then how many have been read. False
  // stops: kAborted.
  OnProgress on_progress{};
  // Keeps where the samples of a server's shards lie, if the server says which version they are.
  // May be empty.
  OpenIndexStore open_index_store{};
};

// PATH/train/CLASS/NAME.{jpg,jpeg,png}, and PATH/test or PATH/val. Classes are the folders of
// PATH/train; samples are in the order of the bytes of class and name. Symbolic links below PATH
// are refused.
Result<std::unique_ptr<SampleSet>> open_folder(const std::filesystem::path& path, Split split);

// Tar archives PATH/train-*.tar or PATH/train/*.tar; for kTest `test`, `val` or `validation` in
// place of `train`. Members KEY.{jpg,jpeg,png} with KEY.cls, a decimal label, or else KEY.json,
// which has "label". Reads all headers.
Result<std::unique_ptr<SampleSet>> open_webdataset(const std::filesystem::path& path, Split split,
                                                   const OpenOptions& options = {});

struct TfRecordFeatures {
  std::string image = "image/encoded";      // one value of bytes
  std::string label = "image/class/label";  // one int64
};
// PATH/train-*.tfrecord or PATH/train-NNNNN-of-NNNNN; for kTest `test`, `val` or `validation`. Each
// record is a tf.train.Example. Opening reads the records' lengths and labels; reading a sample
// compares the record's CRC32C.
Result<std::unique_ptr<SampleSet>> open_tfrecord(const std::filesystem::path& path, Split split,
                                                 const TfRecordFeatures& features = {},
                                                 const OpenOptions& options = {});

}  // namespace phub::data
