// What is in a snapshot comes back, and what is damaged or of another job is refused.
#include <catch2/catch.hpp>

#include "common/job/check.h"
#include "common/job/text.h"
#include "common/job/workers.h"
#include "server/snapshot/digest.h"
#include "tests/support/server/snapshot_example.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

std::unique_ptr<SafetensorsReader> reader_of(const TensorFile& file) {
  const TemporaryDirectory folder;
  REQUIRE(write_safetensors(folder.path / "x", file).ok());
  return std::move(*SafetensorsReader::open(folder.path / "x"));
}

Result<SnapshotHead> checked(const TensorFile& file) {
  const auto reader = reader_of(file);
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, head_of(reader->metadata()));
  PHUB_RETURN_IF_ERROR(verify(*reader, head));
  return head;
}

Result<std::shared_ptr<JobCopy>> copy_from(const TensorFile& file, const SnapshotHead& head,
                                           const Plan& plan, std::uint32_t server) {
  return job_copy_from(*reader_of(file), head, plan, server);
}

void add_tensors(SnapshotDigest& digest, const TensorFile& file) {
  for (const NamedTensor& tensor : file.tensors) {
    digest.begin(tensor.name, tensor.values.size());
    digest.add(tensor.values);
  }
}

}  // namespace

TEST_CASE("a job in a snapshot keeps the names that its fields had first") {
  JobSpec spec = Example().spec;
  spec.rule = RuleKind::kLars;
  spec.keys[0].exclude_from_lars = true;
  const std::string text = text_of(spec);
  CHECK_THAT(text, Contains(R"("plain":true)"));
  const auto read = spec_from_text(text);
  REQUIRE(read);
  CHECK(read->keys[0].exclude_from_lars);
}

TEST_CASE("a stored job that has what its rule does not read is taken without it") {
  JobSpec spec = Example().spec;
  spec.hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.5F};
  for (const RuleKind rule : {RuleKind::kSum, RuleKind::kMean, RuleKind::kSgd, RuleKind::kLars}) {
    spec.rule = rule;
    spec.hyper.gradient_scale = gradient_scale_of({.workers = spec.workers, .rule = rule});
    INFO(name_of(rule));
    for (const auto& read : {spec_from_text(text_of(spec)), spec_from_bytes(bytes_of(spec))}) {
      REQUIRE(read);
      CHECK(read->hyper.learning_rate == (has_parameters(rule) ? 0.5F : 0.0F));
      CHECK(read->hyper.momentum == (has_momentum(rule) ? 0.9F : 0.0F));
      CHECK(read->hyper.gradient_scale == spec.hyper.gradient_scale);
    }
  }
  spec.chunk_bytes = 1;  // everything else is checked
  CHECK(spec_from_text(text_of(spec)).error().code() == Code::kInvalidArgument);
  CHECK(spec_from_bytes(bytes_of(spec)).error().code() == Code::kInvalidArgument);
}

TEST_CASE("a job with another number of workers keeps its mean, and says what is not as it was") {
  JobSpec spec = Example().spec;
  spec.workers = 2;
  spec.hyper.gradient_scale = 0.5F;  // as files have it
  const auto wide = with_workers(spec, 4);
  REQUIRE(wide);
  CHECK(wide->spec.workers == 4);
  CHECK(wide->spec.hyper.gradient_scale == 0.25F);
  REQUIRE(wide->notes.size() == 1);
  CHECK_THAT(wide->notes[0], Contains("were 2 and are 4"));
  CHECK(with_workers(spec, 0)->notes.empty());
  CHECK(with_workers(spec, 2)->notes.empty());
  spec.hyper.gradient_scale = 2.0F;
  spec.encoding = Encoding::kSparse;
  const auto other = with_workers(spec, 1);
  REQUIRE(other);
  CHECK(other->spec.hyper.gradient_scale == 2.0F);
  REQUIRE(other->notes.size() == 3);
  CHECK_THAT(other->notes[0], Contains("gradient_scale: 2 is not 1 / workers and stays"));
  CHECK_THAT(other->notes[1], Contains("that of workers 1 to 1 is dropped"));
  spec.rule = RuleKind::kElastic;
  spec.hyper.learning_rate = default_elasticity(2);
  CHECK(with_workers(spec, 3)->spec.hyper.learning_rate == default_elasticity(3));
  spec.racks = {{"a", 1}, {"b", 1}};
  CHECK(with_workers(spec, 2));
  const Status refused = with_workers(spec, 3).error();
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK_THAT(refused.message(), Contains("workers: ") && Contains("a: 1, b: 1"));
}

TEST_CASE("a rack's residual is in the snapshot, also behind a moving average") {
  const double ema_decay = GENERATE(0.0, 0.99);
  const unsigned before = ema_decay > 0.0 ? 2 : 1;
  Example example({1}, DataType::kFloat32, 0, RuleKind::kMomentum, ema_decay);
  example.spec.workers = 2;
  example.spec.racks = {{"a", 1}, {"b", 1}};
  example.spec.rack_wire_type = DataType::kBfloat16;
  example.copied.copy = example.values = std::move(*JobCopy::create(example.plan(), 0, before + 1));
  for (const Chunk& chunk : example.plan().chunks) Example::fill(*example.values, chunk);
  TensorFile file = example.file();
  REQUIRE(file.find("a.rack_rest") != nullptr);
  CHECK(file.find("a.rack_rest")->values[3] == Example::state_of(3, before));
  CHECK((file.find("a.ema") != nullptr) == (ema_decay > 0.0));
  const auto head = std::move(*checked(file));
  CHECK(has_all(**copy_from(file, head, example.plan(), 0), example.plan(), 0));
}

TEST_CASE("a snapshot comes back as it was, in fp32 whatever the wire type") {
  for (const DataType wire : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    const Example example({2}, wire);
    const TensorFile file = example.file();
    CHECK(file.find("a")->values.size() == 50'000);
    CHECK(file.find("c.state")->values.size() == 20'001);
    const auto head = checked(file);
    REQUIRE(head);
    CHECK(head->tenant == "red");
    CHECK(head->round == 7);
    CHECK(compare(example.spec, head->spec).ok());
    const auto copy = copy_from(file, *head, example.plan(), 0);
    REQUIRE(copy);
    CHECK((*copy)->round == 7);
    CHECK(has_all(**copy, example.plan(), 0));
  }
}

TEST_CASE("a snapshot says what its round has used of the job's samples") {
  const Example example;
  SnapshotHead head = example.head();
  head.samples = {.samples = 1000, .seed = 5, .round = 2, .used = 128, .per_round = 64};
  TensorFile file = whole(*snapshot_parts(head, *example.copied.copy, example.plan(), 0));
  // Six rounds of gradients follow the first one, which brings the parameters.
  const SampleLedger expected{.samples = 1000, .seed = 5, .round = 6, .used = 128 + 4 * 64};
  const auto read = checked(file);
  REQUIRE(read);
  CHECK(read->samples == expected);
  CHECK((*copy_from(file, *read, example.plan(), 0))->samples == expected);
  CHECK_FALSE(checked(example.file())->samples.is_known());
  head.samples.round = 7;  // later than this round
  file = whole(*snapshot_parts(head, *example.copied.copy, example.plan(), 0));
  CHECK_FALSE(checked(file)->samples.is_known());
  head.samples = {.samples = 1000, .seed = 5, .round = 6, .used = 384};
  file = whole(*snapshot_parts(head, *example.copied.copy, example.plan(), 0));
  CHECK(checked(file)->samples == expected);
  TensorFile huge = file;
  huge.metadata["samples_used"] = "18446744073709551615";
  CHECK_THAT(checked(huge).error().message(), Contains("samples: used") && Contains("at most"));
  for (const char* field : {"samples", "samples_seed", "samples_used"}) {
    TensorFile wrong = file;
    wrong.metadata[field] = "many";
    CHECK_THAT(checked(wrong).error().message(),
               Contains(std::string("its ") + field + " is \"many\", no number"));
  }
}

TEST_CASE("both arrays of adam's state come back, and the rounds that votes left out") {
  for (const std::uint32_t server : {0U, 1U}) {
    const Example example({1, 2}, DataType::kFloat16, server, RuleKind::kAdam);
    const TensorFile none = example.file(server);
    CHECK_FALSE(none.metadata.contains("left_out"));
    example.values->note_left_out(3);
    const TensorFile file = example.file(server);
    const auto has = [&file](const std::string& suffix) {
      return std::any_of(file.tensors.begin(), file.tensors.end(),
                         [&](const NamedTensor& tensor) { return tensor.name.ends_with(suffix); });
    };
    CHECK((has(".exp_avg") && has(".exp_avg_sq") && !has(".state")));
    const auto head = std::move(*checked(file));
    CHECK(head.left_out == 3);
    const auto copy = copy_from(file, head, example.plan(), server);
    REQUIRE(copy);
    CHECK((*copy)->left_out() == 3);
    CHECK(has_all(**copy, example.plan(), server));
  }
}

TEST_CASE("a moving average is in the snapshot under its name, whatever the rule") {
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kMomentum, RuleKind::kAdamW}) {
    const Example example({1}, DataType::kFloat32, 0, rule, 0.99);
    const TensorFile file = example.file();
    REQUIRE(file.find("a.ema") != nullptr);
    CHECK(file.find("a.ema")->values[3] == Example::state_of(3, state_arrays(rule)));
    CHECK(file.tensors.size() == 3 * (2 + state_arrays(rule)));
    const auto head = std::move(*checked(file));
    CHECK(head.spec.ema_decay == 0.99);
    const auto copy = copy_from(file, head, example.plan(), 0);
    REQUIRE(copy);
    CHECK(has_all(**copy, example.plan(), 0));
  }
}

TEST_CASE("two servers write their runs of a key, and one server says which tensor it lacks") {
  for (const std::uint32_t server : {0U, 1U}) {
    const Example example({1, 2}, DataType::kFloat32, server);
    const TensorFile file = example.file(server);
    const auto head = std::move(*checked(file));
    const auto copy = copy_from(file, head, example.plan(), server);
    REQUIRE(copy);
    CHECK(has_all(**copy, example.plan(), server));
    const bool has_run = std::any_of(
        file.tensors.begin(), file.tensors.end(),
        [](const NamedTensor& tensor) { return tensor.name.find("[") != std::string::npos; });
    CHECK(has_run);
    const auto alone = copy_from(file, head, Example().plan(), 0);
    REQUIRE_FALSE(alone);
    CHECK(alone.error().code() == Code::kFailedPrecondition);
    CHECK_THAT(alone.error().message(), Contains("it has no tensor a of 50000 elements"));
    CHECK_FALSE(copy_from(file, head, example.plan(), 1 - server));
  }
}

TEST_CASE("a tensor that is larger or smaller than the job's is not taken for it") {
  const Example example;
  for (const std::uint64_t elements : {49'992U, 50'008U}) {
    TensorFile file = example.file();
    file.tensors[0].shape = {elements};
    file.tensors[0].values.resize(elements);
    SnapshotDigest digest;  // whoever made it has a right checksum
    digest.add(file.metadata);
    add_tensors(digest, file);
    file.metadata["sha256"] = digest.text();
    const auto head = std::move(*checked(file));
    const auto copy = copy_from(file, head, example.plan(), 0);
    REQUIRE_FALSE(copy);
    CHECK(copy.error().code() == Code::kFailedPrecondition);
    CHECK_THAT(copy.error().message(), Contains("it has no tensor a of 50000 elements"));
  }
}

TEST_CASE(
    "the part of one of several servers says what its plan was made with, and a whole does not") {
  SnapshotHead head{.spec = Example().spec,
                    .tenant = "red",
                    .round = 7,
                    .created = "now",
                    .sha256 = {},
                    .core_load_bytes = {70'000, 0}};
  const Example parts({1, 2}, DataType::kFloat32, 1);
  TensorFile file = whole(*snapshot_parts(head, *parts.copied.copy, parts.plan(), 1));
  CHECK(checked(file)->core_load_bytes == head.core_load_bytes);
  file.metadata["core_load_bytes"] = "70000,x";
  CHECK_THAT(checked(file).error().message(), Contains("core_load_bytes are \"70000,x\""));
  const Example one({2});
  const TensorFile alone = whole(*snapshot_parts(head, *one.copied.copy, one.plan(), 0));
  CHECK(checked(alone)->core_load_bytes.empty());
}

TEST_CASE("what is damaged, of another version, or no snapshot is refused with the reason") {
  const auto refused = [](const TensorFile& file, const std::string& reason) {
    const auto head = checked(file);
    REQUIRE_FALSE(head);
    CHECK(head.error().code() == Code::kDataLoss);
    CHECK_THAT(head.error().message(), Contains(reason));
  };
  const TensorFile good = Example().file();
  refused({}, "is it a snapshot?");
  TensorFile file = good;
  file.tensors[1].values[3] = 5.0F;
  refused(file, "it is damaged");
  file = good;
  file.tensors[0].name = "other";
  refused(file, "it is damaged");
  const std::vector<std::array<std::string, 3>> changes = {
      {"version", "3", "reads phub-snapshot of versions 1 to 2"},
      {"version", "1", "it is damaged"},
      {"round", "8", "it is damaged"},
      {"tenant", "blue", "it is damaged"},
      {"created", "then", "it is damaged"},
      {"format", "pt", "it is a \"pt\""},
      {"round", "0", "no number above 0"},
      {"round", "7x", "no number above 0"},
      {"round", "99999999999999999999", "no number above 0"},
      {"job", "{", "no JobSpec"},
      {"job", "{}", ""},
      {"sha256", "", "it is damaged"},
      {"core_load_bytes", "1", "it is damaged"},
      {"left_out", "7", "no number below its round"},
      {"left_out", "x", "no number below its round"},
      {"left_out", "1", "it is damaged"}};
  for (const auto& [key, value, reason] : changes) {
    INFO(key << " " << value);
    file = good;
    file.metadata[key] = value;
    refused(file, reason);
    if (key == "core_load_bytes" || key == "left_out") continue;  // this one has none
    file.metadata.erase(key);
    refused(file, "its metadata has no " + key);
  }
}

TEST_CASE("a snapshot of version 1 is read, and its data is verified") {
  TensorFile file = Example().file();
  file.metadata["version"] = "1";
  SnapshotDigest digest;
  add_tensors(digest, file);
  file.metadata["sha256"] = digest.text();
  const auto head = checked(file);
  REQUIRE(head);
  CHECK(has_all(**copy_from(file, *head, Example().plan(), 0), Example().plan(), 0));
  file.tensors[0].values[0] += 1.0F;
  CHECK(checked(file).error().code() == Code::kDataLoss);
}

}  // namespace phub::testing
