#include "worker/data/formats/shards/shard_urls.h"

#include <catch2/catch.hpp>

namespace phub::data {
namespace {

using Urls = std::vector<std::string>;

Urls urls_of(const std::string& path, Split split, ShardKind kind = ShardKind::kTar) {
  const auto urls = shard_urls(path, split, kind);
  INFO(urls.error().message());
  REQUIRE(urls.has_value());
  return *urls;
}

std::string refused_path(const std::string& path, Split split = Split::kTrain,
                         ShardKind kind = ShardKind::kTar) {
  const auto urls = shard_urls(path, split, kind);
  REQUIRE_FALSE(urls.has_value());
  return urls.error().message();
}

TEST_CASE("The last word of a split in its path says which split a URL is of") {
  const std::string path =
      "https://h/x-train-{0..1}.tar::https://test/val/x.tar?train::https://h/train/"
      "validated-test.tar";
  CHECK(urls_of(path, Split::kTrain) == Urls{"https://h/x-train-0.tar", "https://h/x-train-1.tar"});
  CHECK_THAT(refused_path(path, Split::kTest), Catch::Contains("both val and test shards"));
  CHECK(urls_of("https://h/train_test/validation.9.tar", Split::kTest).size() == 1);
  for (const char* const word : {"Train", "training", "xtrain", "train2", "dev"}) {
    CHECK_THAT(refused_path("https://train/" + std::string(word) + "-0.tar"),
               Catch::Contains("-0.tar has none of the words train, test, val") &&
                   Catch::Contains("put #train or #test behind the URL"));
  }
}

TEST_CASE("A word behind a '#' says the split in place of the path") {
  const std::string path = "https://h/train/{0..1}.tar?x#val::https://h/2.tar#train";
  CHECK(urls_of(path, Split::kTest) == Urls{"https://h/train/0.tar?x", "https://h/train/1.tar?x"});
  CHECK(urls_of(path, Split::kTrain) == Urls{"https://h/2.tar"});
  CHECK(urls_of("https://h/train.tar#x#test", Split::kTrain).size() == 1);
  CHECK_THAT(refused_path("https://h/train.tar::https://h/train.tar#train"),
             Catch::Contains("named twice"));
}

TEST_CASE("Shards of a server are in the order of their URLs' bytes, as files are") {
  CHECK(urls_of("https://h/train-{10,9}.tar", Split::kTrain) ==
        Urls{"https://h/train-10.tar", "https://h/train-9.tar"});
  CHECK_THAT(refused_path("https://h/train-{1,1}.tar"),
             Catch::Contains("train-1.tar is named twice"));
}

TEST_CASE("A split without shards is not found, and the cure is told") {
  const auto urls = shard_urls("https://h/train-0.tar", Split::kTest, ShardKind::kTar);
  CHECK(urls.error().code() == Code::kNotFound);
  CHECK_THAT(urls.error().message(), Catch::Contains("train-0.tar has no shard of the split test; "
                                                     "join its URLs to the others by \"::\""));
}

TEST_CASE("What is no shard, or a compressed one, is refused with the cure") {
  CHECK_THAT(
      refused_path("https://h/train"),
      Catch::Contains("does not end in .tar; name the shards, for a server lists no folder"));
  CHECK_THAT(refused_path("https://h/train-0.tar.gz"), Catch::Contains("compressed; decompress"));
  CHECK_THAT(refused_path("https://h/train.tar", Split::kTrain, ShardKind::kTfRecord),
             Catch::Contains("does not end in .tfrecord or"));
  CHECK_THAT(refused_path("https://u:secret@h/train-{1..}.tar?secret"),
             Catch::Contains("tar?... has braces at character ") && !Catch::Contains("secret"));
}

TEST_CASE("Shards of a server that count themselves must all be named") {
  const std::string all = "https://h/train-{00000..00002}-of-00003?t=-of-7";
  CHECK(urls_of(all, Split::kTrain, ShardKind::kTfRecord).size() == 3);
  CHECK_THAT(
      refused_path("https://h/train-{00000..00001}-of-00003", Split::kTrain, ShardKind::kTfRecord),
      Catch::Contains("one of 00003 shards, but 2 of them"));
}

TEST_CASE("The first URL's ending says which kind of shards a path has") {
  CHECK(kind_of_urls("https://h/{train,test}-{0..9}.tar?x") == ShardKind::kTar);
  CHECK(kind_of_urls("https://h/train-{0..9}-of-10") == ShardKind::kTfRecord);
  CHECK(kind_of_urls("https://h/train.tfrecord.gz") == ShardKind::kTfRecord);
  CHECK(kind_of_urls("https://h/set?x.tar") == std::nullopt);
  CHECK(kind_of_urls("https://h/train.phub") == std::nullopt);
}

}  // namespace
}  // namespace phub::data
