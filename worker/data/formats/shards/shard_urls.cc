#include "worker/data/formats/shards/shard_urls.h"

#include <algorithm>
#include <string_view>

#include "common/text/url_list.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

std::string_view path_in(std::string_view url) {
  const UrlPath path = path_of_url(url);
  return url.substr(path.begin, path.end - path.begin);
}

// Where the '#' is, or the end.
std::size_t fragment_of(std::string_view url) {
  return std::min(url.find('#', path_of_url(url).begin), url.size());
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_split_word(const std::string& word) {
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const std::vector<std::string> words = words_of(split);
    if (std::find(words.begin(), words.end(), word) != words.end()) return true;
  }
  return false;
}

// The fragment if it is a word of a split, else the last such word in the path; empty without one.
std::string split_word(const std::string& url) {
  std::string fragment = url.substr(std::min(fragment_of(url) + 1, url.size()));
  if (is_split_word(fragment)) return fragment;
  std::string_view path = path_in(url);
  while (!path.empty()) {
    std::size_t begin = path.size();
    while (begin > 0 && is_letter_or_digit(path[begin - 1])) --begin;
    std::string word(path.substr(begin));
    if (is_split_word(word)) return word;
    path = path.substr(0, begin > 0 ? begin - 1 : 0);
  }
  return {};
}

Status check_shard_url(const std::string& url, ShardKind kind) {
  const std::string_view path = path_in(url);
  PHUB_RETURN_IF_ERROR(check_not_compressed(path, kind, printable(url)));
  if (is_shard_name(path, kind)) return {};
  const std::string wanted = kind == ShardKind::kTar ? ".tar" : ".tfrecord or -NNNNN-of-NNNNN";
  const std::string example =
      kind == ShardKind::kTar ? "train-{000000..000127}.tar" : "train-{00000..00127}-of-00128";
  return {Code::kInvalidArgument, printable(url) + " does not end in " + wanted +
                                      "; name the shards, for a server lists no folder (" +
                                      example + ")"};
}

Status no_word(const std::string& url) {
  return {Code::kInvalidArgument,
          printable(url) +
              " has none of the words train, test, val and validation in its path; they say of "
              "which split a shard is: put #train or #test behind the URL"};
}

Status two_words(const std::string& path, const std::string& one, const std::string& other) {
  return {Code::kInvalidArgument, printable(path) + " has both " + one + " and " + other +
                                      " shards; leave one of them out"};
}

Status no_urls(const std::string& path, Split split) {
  const std::string word = words_of(split).back();
  return {Code::kNotFound,
          printable(path) + " has no shard of the split " + std::string(name_of(split)) +
              "; join its URLs to the others by \"::\" (https://host/" + word + "-{00..09}.tar)"};
}

}  // namespace

std::optional<ShardKind> kind_of_urls(const std::string& path) {
  const std::string_view first = path_in(split_urls(path).front());
  for (const ShardKind kind : {ShardKind::kTar, ShardKind::kTfRecord}) {
    if (is_shard_name(first, kind) || !check_not_compressed(first, kind, "").ok()) return kind;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> shard_urls(const std::string& path, Split split, ShardKind kind) {
  auto all = expand_urls(path);
  if (!all) return Status(all.error().code(), printable(path) + ' ' + all.error().message());
  std::vector<std::string> urls, names;
  std::string first_word;
  for (const std::string& url : *all) {
    PHUB_RETURN_IF_ERROR(check_shard_url(url, kind));
    const std::string word = split_word(url);
    if (word.empty()) return no_word(url);
    const std::vector<std::string> wanted = words_of(split);
    if (std::find(wanted.begin(), wanted.end(), word) == wanted.end()) continue;
    if (first_word.empty()) first_word = word;
    if (word != first_word) return two_words(path, first_word, word);
    urls.push_back(url.substr(0, fragment_of(url)));
  }
  if (urls.empty()) return no_urls(path, split);
  std::sort(urls.begin(), urls.end());
  const auto twice = std::adjacent_find(urls.begin(), urls.end());
  if (twice != urls.end()) {
    return Status(Code::kInvalidArgument, printable(*twice) + " is named twice; remove one");
  }
  for (const std::string& url : urls) names.emplace_back(path_in(url));
  PHUB_RETURN_IF_ERROR(check_complete(names, printable(urls.front())));
  return urls;
}

}  // namespace phub::data
