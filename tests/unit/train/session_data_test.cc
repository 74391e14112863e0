#include "worker/train/session_data.h"

#include <catch2/catch.hpp>

#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/data/formats/tar_bytes.h"

namespace phub::train {
namespace {

TEST_CASE("A training that is stopped while its shards are opened ends there") {
  const TemporaryDirectory directory;
  directory.write("train-0.tar", data::tar_member("a.cls", "0") + data::tar_end());
  SessionOptions options = testing::small_session();
  options.data.format = DataFormat::kWebDataset;
  options.data.path = directory.path;
  const auto ended = testing::run(options, RuleKind::kMomentum, 1);
  CHECK(ended.error().code() == Code::kAborted);
  CHECK_THAT(ended.error().message(), Catch::Contains("stopped after 0 of 1 shards"));
}

}  // namespace
}  // namespace phub::train
