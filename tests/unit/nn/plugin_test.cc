#include "worker/nn/plugin.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/temporary_directory.h"
#include "worker/nn/models/models.h"
#include "worker/train/backends.h"

namespace phub::nn {
namespace {

using Catch::Matchers::Contains;

const std::filesystem::path kStandIn = PHUB_STAND_IN_PLUGIN;

PluginPlaces named(const std::filesystem::path& file) {
  PluginPlaces places;
  places.file = file;
  return places;
}

TEST_CASE("A plug-in is found beside the program, in lib beside that, or where it is named") {
  const TemporaryDirectory folder;
  const auto bin = folder.path / "bin", lib = folder.path / "lib";
  std::filesystem::create_directory(bin);
  std::filesystem::create_directory(lib);
  PluginPlaces places;
  places.folder = bin;
  places.name = "libphub_stand_in.so";
  SECTION("named") { places.file = kStandIn; }
  SECTION("beside the program") { std::filesystem::copy(kStandIn, bin / places.name); }
  SECTION("in lib") { std::filesystem::copy(kStandIn, lib / places.name); }
  const auto plugin = load_plugin(places);
  INFO(plugin.error().message());
  REQUIRE(plugin);
  CHECK((*plugin)->abi == plugin_abi());
}

TEST_CASE("A plug-in that is not there is named with all that was tried and the cure") {
  PluginPlaces places;
  places.folder = "/nowhere/bin";
  places.name = "libphub_nothing.so";
  const Status missing = load_plugin(places).error();
  CHECK(missing.code() == Code::kNotFound);
  CHECK_THAT(missing.message(), Contains("/nowhere/bin/libphub_nothing.so: not there") &&
                                    Contains("/nowhere/lib/libphub_nothing.so: not there") &&
                                    Contains("cannot open shared object file") &&
                                    Contains("PHUB_CUDA_PLUGIN"));
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  CHECK((driver == nullptr) == missing.message().starts_with("this machine has no NVIDIA driver"));
  if (driver != nullptr) dlclose(driver);
  const Status named_one = load_plugin(named("/nowhere/mine.so")).error();
  CHECK_THAT(named_one.message(), Contains("/nowhere/mine.so: not there") && !Contains("/lib/"));
}

TEST_CASE("A plug-in of another build, and what is none, are refused") {
  const Status foreign = load_plugin(named(PHUB_FOREIGN_PLUGIN)).error();
  CHECK(foreign.code() == Code::kFailedPrecondition);
  CHECK_THAT(foreign.message(), Contains("built for another phub-worker") && Contains("0.0.1"));
  const Status none = load_plugin(named("libz.so.1")).error();
  CHECK(none.code() == Code::kFailedPrecondition);
  CHECK_THAT(none.message(), Contains("no function phub_plugin"));
}

TEST_CASE("The backend cuda is what its plug-in makes, with the options that were given") {
  std::string notes;
  train::ExecutorOptions options{
      .backend = train::BackendKind::kCuda, .compute_type = DataType::kBfloat16, .batch = 3};
  options.cuda.plugin = named(kStandIn);
  options.cuda.executor.note = [&](std::string_view note) { notes += note; };
  const auto executor = train::make_executor(*make_model("lenet"), options);
  REQUIRE(executor);
  CHECK((*executor)->batch() == 3);
  CHECK_THAT(notes, Contains("stand-in") && Contains("bf16"));
  options.cuda.executor.device = 1;
  CHECK_THAT(train::make_executor(*make_model("lenet"), options).error().message(),
             Contains("train.device"));
}

}  // namespace
}  // namespace phub::nn
