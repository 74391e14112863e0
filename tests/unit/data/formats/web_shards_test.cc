#include <atomic>
#include <map>

#include "tests/unit/data/formats/example_bytes.h"
#include "tests/unit/data/formats/range_server.h"
#include "tests/unit/data/formats/sample_files.h"
#include "tests/unit/data/formats/tar_bytes.h"
#include "worker/data/formats/detect/detect.h"

namespace phub::data {
namespace {

std::string web_member(const std::string& key, const std::string& image, int label) {
  return tar_member(key + ".cls", std::to_string(label)) + tar_member(key + ".jpg", image);
}

// Files by their targets, which a test may change between requests.
class ShardServer {
 public:
  std::string url(const std::string& target) const { return server_.url(target); }
  int requests() const { return requests_.load(); }
  int connections() const { return server_.connections(); }
  std::uint64_t bytes() const { return bytes_.load(); }

  void put(const std::string& target, const std::string& content, const std::string& headers) {
    const std::lock_guard lock(mutex_);
    files_[target] = {content, headers};
  }
  void put(const std::string& target, const std::string& content) {
    put(target, content, "ETag: \"" + std::to_string(++versions_) + "\"\r\n");
  }
  // Answers in place of the files'; an empty text is none.
  void answer_with(std::function<std::string(const Asked&)> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }

 private:
  struct File {
    std::string content;
    std::string headers;
  };

  Reply handle(const Asked& asked) {
    ++requests_;
    bytes_ += asked.bytes;
    const std::lock_guard lock(mutex_);
    const std::string own = answer_ ? answer_(asked) : "";
    if (!own.empty()) return {own};
    const auto file = files_.find(asked.target.substr(0, asked.target.find('?')));
    if (file == files_.end()) return {status_only(404)};
    return {right_part(file->second.content, asked, file->second.headers)};
  }

  std::mutex mutex_;
  std::map<std::string, File> files_;
  std::function<std::string(const Asked&)> answer_;
  std::atomic<int> requests_{0}, versions_{0};
  std::atomic<std::uint64_t> bytes_{0};
  RangeServer server_{[this](const Asked& asked) { return handle(asked); }};
};

std::unique_ptr<SampleSet> opened_at(const std::string& path, Split split = Split::kTrain) {
  auto set = open_sample_set(path, split);
  INFO(set.error().message());
  REQUIRE(set.has_value());
  return std::move(*set);
}

Status refused_at(const std::string& path, Split split = Split::kTrain) {
  const auto set = open_sample_set(path, split);
  REQUIRE_FALSE(set.has_value());
  return set.error();
}

// Two shards, whose headers a reader finds.
void put_tars(ShardServer& server, std::size_t image_bytes = 3000) {
  for (int shard = 0; shard < 2; ++shard) {
    std::string bytes;
    for (int i = 0; i < 20; ++i) {
      const std::string key = std::to_string(shard) + '/' + std::to_string(i);
      bytes += web_member(key, jpeg(key + std::string(image_bytes, 'x')), i % 7);
    }
    server.put("/set/train-" + std::to_string(shard) + ".tar", bytes + tar_end());
  }
}

TEST_CASE("Shards of a server have the samples that they have as files") {
  const TemporaryDirectory directory;
  ShardServer server;
  const bool is_tar = GENERATE(true, false);
  for (int shard = 0; shard < 3; ++shard) {
    const std::string image = jpeg(std::string(5000, static_cast<char>('a' + shard)));
    const std::string name = "train-" + std::to_string(shard) + (is_tar ? ".tar" : "-of-3");
    const std::string bytes =
        is_tar ? web_member("k", image, shard) + tar_end() : tf_record(image_example(image, shard));
    directory.write(name, bytes);
    server.put("/x/" + name, bytes);
  }
  const auto there =
      opened_at(server.url(is_tar ? "/x/train-{0..2}.tar?key=1" : "/x/train-{0..2}-of-3?key=1"));
  const auto here = opened_at(directory.path);
  CHECK(samples_of(*there) == samples_of(*here));
  CHECK(there->classes() == here->classes());
  CHECK(there->content_number() == here->content_number());
  CHECK_THAT(there->name(1),
             Catch::StartsWith(server.url("/x/train-1")) && Catch::Contains("?... at offset "));
}

TEST_CASE("Opening reads headers alone where images are large, and on where they are small") {
  ShardServer server;
  put_tars(server, 300'000);
  CHECK(opened_at(server.url("/set/train-{0..1}.tar"))->samples() == 40);
  CHECK(server.bytes() < 40 * 2 * 4096);
  CHECK(server.requests() < 40 * 2);
  ShardServer small;
  put_tars(small, 3000);
  CHECK(opened_at(small.url("/set/train-{0..1}.tar"))->samples() == 40);
  CHECK(small.requests() < 20);
}

TEST_CASE("The shards of a set share their connections") {
  ShardServer server;
  for (int i = 100; i < 200; ++i) {
    server.put("/train-" + std::to_string(i) + ".tar", web_member("k", jpeg("1"), 1) + tar_end());
  }
  const auto set = opened_at(server.url("/train-{100..199}.tar"));
  CHECK(samples_of(*set).size() == 100);
  CHECK(server.connections() <= 32);
}

TEST_CASE("Both splits are found in one path") {
  ShardServer server;
  put_tars(server);
  server.put("/set/val.tar", web_member("v", jpeg("v"), 3) + tar_end());
  const std::string path = server.url("/set/{train-0,train-1,val}.tar");
  CHECK(opened_at(path)->samples() == 40);
  CHECK(samples_of(*opened_at(path, Split::kTest)) == std::vector<Sample>{{3, jpeg("v")}});
  CHECK(samples_of(*opened_at(server.url("/set/val.tar#train")))[0].label == 3);
}

TEST_CASE("A shard that a server does not give is named, and so is what it answers") {
  ShardServer server;
  put_tars(server);
  const std::string path = server.url("/set/train-{0..2}.tar");
  const Status status = refused_at(path);
  CHECK(status.code() == Code::kNotFound);
  CHECK_THAT(status.message(),
             Catch::StartsWith(server.url("/set/train-2.tar, bytes 0-0, after 1")));
  server.answer_with([](const Asked&) { return status_only(403); });
  CHECK(refused_at(path).code() == Code::kPermissionDenied);
  server.answer_with([](const Asked&) { return status_only(200); });
  CHECK_THAT(refused_at(path).message(),
             Catch::Contains("200 to a range request, which wants 206"));
}

TEST_CASE("A server that sends another part in its place is refused while headers are read") {
  ShardServer server;
  put_tars(server);
  server.answer_with([](const Asked& asked) {
    if (asked.bytes == 1) return std::string();
    return part("ETag: \"1\"\r\n" + content_range(0, asked.bytes, 1'000'000),
                std::string(asked.bytes, 'x'));
  });
  const Status status = refused_at(server.url("/set/train-0.tar"));
  CHECK_THAT(status.message(), Catch::Contains("has changed since the set was opened") ||
                                   Catch::Contains("in their place"));
}

TEST_CASE("A shard that was cut on a server is named with the offset") {
  ShardServer server;
  const std::string whole = web_member("k", jpeg(std::string(5000, 'x')), 1) + tar_end();
  server.put("/train-0.tar", whole);
  server.put("/train-1.tar", whole.substr(0, 3000));
  const Status status = refused_at(server.url("/train-{0..1}.tar"));
  CHECK(status.code() == Code::kDataLoss);
  CHECK_THAT(status.message(), Catch::StartsWith(server.url("/train-1.tar is damaged at offset ")));
  const std::string record = tf_record(image_example(jpeg("x"), 1));
  server.put("/train.tfrecord", record + record.substr(0, 20));
  CHECK_THAT(refused_at(server.url("/train.tfrecord")).message(),
             Catch::StartsWith(server.url("/train.tfrecord is damaged at offset ") +
                               std::to_string(record.size())));
}

TEST_CASE("A record of a server is compared with its checksum") {
  ShardServer server;
  std::string record = tf_record(image_example(jpeg("abc"), 1));
  record[record.find("abc")] = 'x';
  server.put("/train.tfrecord", record);
  const auto set = opened_at(server.url("/train.tfrecord"));
  std::vector<std::uint8_t> buffer;
  CHECK_THAT(set->read(0, buffer).error().message(), Catch::Contains("checksum is wrong"));
}

TEST_CASE("A shard of a server that changes is noticed when it is read, and while headers are") {
  ShardServer server;
  put_tars(server);
  const std::string path = server.url("/set/train-{0..1}.tar");
  const auto set = opened_at(path);
  put_tars(server);  // the same bytes, later
  std::vector<std::uint8_t> buffer;
  CHECK(set->read(0, buffer).error().code() == Code::kDataLoss);
  CHECK_THAT(set->read(39, buffer).error().message(), Catch::Contains("has changed since"));
  server.answer_with(
      [](const Asked& asked) { return asked.bytes == 1 ? std::string() : status_only(412); });
  CHECK_THAT(refused_at(path).message(), Catch::Contains("has changed since the set was opened"));
}

TEST_CASE("A web set's fingerprint depends on its files' versions, and not on credentials") {
  ShardServer server;
  put_tars(server);
  const std::uint64_t number = opened_at(server.url("/set/train-{0..1}.tar"))->fingerprint();
  CHECK(opened_at(server.url("/set/train-{0..1}.tar?key=2"))->fingerprint() == number);
  put_tars(server);
  CHECK(opened_at(server.url("/set/train-{0..1}.tar"))->fingerprint() != number);
}

TEST_CASE("Opening tells how far it is, and stops when it is told to") {
  ShardServer server;
  put_tars(server);
  const std::string path = server.url("/set/train-{0..1}.tar");
  std::vector<std::uint64_t> done;
  std::uint64_t bytes = 0;
  const OnProgress follow = [&](const Progress& progress) {
    CHECK(progress.of == 2);
    done.push_back(progress.samples);
    bytes = progress.bytes;
    return true;
  };
  REQUIRE(open_sample_set(path, Split::kTrain, {.on_progress = follow}).has_value());
  CHECK(done.front() == 0);
  CHECK(done.back() == 2);
  CHECK(bytes > 10'000);
  int calls = 0;
  const OnProgress stop = [&](const Progress&) { return ++calls < 3; };
  CHECK(open_sample_set(path, Split::kTrain, {.on_progress = stop}).error().code() ==
        Code::kAborted);
}

TEST_CASE("A shard that never ends is stopped within it") {
  ShardServer server;
  const std::string folder = tar_member("d/", "", '5');
  server.answer_with([&](const Asked& asked) {
    std::string body;
    while (body.size() < asked.bytes + folder.size()) body += folder;
    return part(content_range(asked.first, asked.bytes, 1ULL << 50U),
                body.substr(asked.first % folder.size(), asked.bytes));
  });
  const OnProgress until_read = [](const Progress& progress) { return progress.bytes == 0; };
  const auto set =
      open_sample_set(server.url("/train.tar"), Split::kTrain, {.on_progress = until_read});
  CHECK(set.error().message() == "stopped after 0 of 1 shards");
}

TEST_CASE("A check of shards on a server ends where it cannot be asked, and counts no damage") {
  ShardServer server;
  put_tars(server);
  const auto set = opened_at(server.url("/set/train-{0..1}.tar"));
  CHECK(check(*set)->damaged == 0);
  server.answer_with([](const Asked&) { return status_only(404); });
  CHECK(check(*set).error().code() == Code::kUnavailable);
}

// What a run keeps for the next one.
struct Kept {
  std::map<std::uint64_t, std::vector<std::uint8_t>> shards;
  std::uint64_t number = 0;
  int opened = 0;
};

class KeptInMemory final : public IndexStore {
 public:
  explicit KeptInMemory(Kept& kept) : kept_(kept) {}

  std::optional<std::span<const std::uint8_t>> find(
      std::uint64_t shard, std::vector<std::uint8_t>& buffer) const override {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.shards.find(shard);
    if (found == kept_.shards.end()) return std::nullopt;
    buffer = found->second;
    return buffer;
  }
  void keep(std::uint64_t shard, std::span<const std::uint8_t> content) override {
    const std::lock_guard lock(mutex_);
    kept_.shards[shard].assign(content.begin(), content.end());
  }

 private:
  mutable std::mutex mutex_;
  Kept& kept_;
};

std::unique_ptr<SampleSet> opened_with(const std::string& path, Kept& kept) {
  const OpenIndexStore open = [&](std::uint64_t shards, std::uint64_t number) {
    CHECK(shards == 2);
    kept.number = number;
    ++kept.opened;
    return Result<std::unique_ptr<IndexStore>>(std::make_unique<KeptInMemory>(kept));
  };
  auto set = open_sample_set(path, Split::kTrain, {.open_index_store = open});
  INFO(set.error().message());
  REQUIRE(set.has_value());
  return std::move(*set);
}

TEST_CASE("An index that is kept is not asked for again") {
  ShardServer server;
  put_tars(server);
  const std::string path = server.url("/set/train-{0..1}.tar");
  Kept kept;
  const auto first = opened_with(path, kept);
  CHECK(kept.shards.size() == 2);
  const std::uint64_t number = kept.number;
  const int requests = server.requests();
  const auto again = opened_with(path, kept);
  CHECK(server.requests() == requests + 2);
  CHECK(kept.number == number);
  CHECK(again->fingerprint() == first->fingerprint());
  CHECK(samples_of(*again) == samples_of(*first));
  kept.shards[0].pop_back();  // then that shard is read again
  CHECK(opened_with(path, kept)->fingerprint() == first->fingerprint());
  CHECK(kept.shards[0].size() == kept.shards[1].size());
}

TEST_CASE("An index is kept for one version of the shards, and one that a server names") {
  ShardServer server;
  put_tars(server);
  const std::string path = server.url("/set/train-{0..1}.tar");
  Kept kept;
  opened_with(path, kept);
  const std::uint64_t number = kept.number;
  put_tars(server);
  opened_with(path, kept);
  CHECK(kept.number != number);
  CHECK(kept.opened == 2);
  server.put("/set/train-1.tar", web_member("k", jpeg("1"), 1) + tar_end(), "");
  CHECK(opened_with(path, kept)->samples() == 21);
  CHECK(kept.opened == 2);
  server.put("/set/train-1.tar", web_member("k", jpeg("1"), 1) + tar_end(), "Last-Modified: x\r\n");
  CHECK(opened_with(path, kept)->samples() == 21);
  CHECK(kept.opened == 3);
}

}  // namespace
}  // namespace phub::data
