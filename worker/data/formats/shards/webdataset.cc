// WebDataset: tar archives whose neighbouring members with the same key are one sample.
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/base/log_value.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/shards/shard_set.h"
#include "worker/data/formats/shards/tar_reader.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kMaxClsBytes = 64;
constexpr std::uint64_t kMaxJsonBytes = 1ULL << 20U;

// "a/b.c/d.seg.png": the key "a/b.c/d" and the field "seg.png", in lower case.
struct MemberName {
  std::string key;
  std::string field;
};
std::optional<MemberName> split_name(const std::string& name) {
  const std::size_t base = name.rfind('/') + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string::npos || dot == base) return std::nullopt;
  MemberName split{name.substr(0, dot), name.substr(dot + 1)};
  for (char& c : split.field) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return split;
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> label_in_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto label = json.find("label");
  if (label == json.end() || !label->is_number_unsigned()) return std::nullopt;
  return label->get<std::uint64_t>();
}

// Gathers the members of an archive to samples.
class Gatherer {
 public:
  Gatherer(const ByteSource& file, ShardSamples& into) : file_(file), into_(into), reader_(file) {}

  Status run() {
    while (true) {
      PHUB_ASSIGN_OR_RETURN(const std::optional<TarMember> member, reader_.next());
      if (!member) return finish();
      PHUB_RETURN_IF_ERROR(take(*member));
    }
  }

 private:
  struct Sample {
    std::string key;
    std::optional<TarMember> image;
    std::optional<std::uint64_t> cls;
    std::optional<std::uint64_t> json;
    bool has_json = false;
  };

  Status take(const TarMember& member) {
    const std::optional<MemberName> name = split_name(member.name);
    if (!name) return {};
    if (name->key != sample_.key) {
      PHUB_RETURN_IF_ERROR(finish());
      sample_.key = name->key;
    }
    const std::string& field = name->field;
    if (field == "cls") return take_cls(member);
    if (field == "json") return take_json(member);
    if (field != "jpg" && field != "jpeg" && field != "png") return {};
    if (sample_.image) {
      return refused(member,
                     "is a second image with this key; keep one, or rename the other "
                     "(KEY.second.png)");
    }
    sample_.image = member;
    return {};
  }

  Status take_cls(const TarMember& member) {
    if (sample_.cls) return refused(member, "is a second label; keep one");
    if (member.bytes > kMaxClsBytes) return no_label(member);
    PHUB_ASSIGN_OR_RETURN(const auto bytes, reader_.content(member));
    sample_.cls = decimal({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return sample_.cls ? Status() : no_label(member);
  }

  // JSON without a label may have everything else.
  Status take_json(const TarMember& member) {
    if (sample_.has_json) return refused(member, "is a second one of this key; keep one");
    sample_.has_json = true;
    if (member.bytes > kMaxJsonBytes) {
      return refused(member, "has " + std::to_string(member.bytes) + " bytes; the most is " +
                                 std::to_string(kMaxJsonBytes) + ": put what is large elsewhere");
    }
    PHUB_ASSIGN_OR_RETURN(const auto bytes, reader_.content(member));
    sample_.json = label_in_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return {};
  }

  // Adds the sample whose members have all been seen.
  Status finish() {
    const Sample sample = std::exchange(sample_, {});
    const std::optional<std::uint64_t> label = sample.cls ? sample.cls : sample.json;
    if (!sample.image) {
      if (!sample.cls) return {};
      return file_.refused(reader_.offset(), "before this, " + log_value(sample.key) +
                                                 " has a label, but no jpg, jpeg or png beside "
                                                 "it; members of a sample must be neighbours");
    }
    if (!label) {
      return refused(*sample.image,
                     "has no label; put a KEY.cls beside it with a decimal number, or \"label\" "
                     "with a number from 0 on into KEY.json");
    }
    return into_.add(file_, sample.image->offset, sample.image->bytes, *label);
  }

  Status no_label(const TarMember& member) const {
    return refused(member, "is no decimal number from 0 on; a label is one, as text");
  }
  Status refused(const TarMember& member, const std::string& what) const {
    return file_.refused(member.offset, "member " + log_value(member.name) + ' ' + what);
  }

  const ByteSource& file_;
  ShardSamples& into_;
  TarReader reader_;
  Sample sample_;
};

class TarFormat final : public ShardFormat {
 public:
  void add_to(Fingerprint& number) const override { number.add("webdataset"); }
  Status scan(const ByteSource& file, ShardSamples& into) const override {
    return Gatherer(file, into).run();
  }
  Result<std::span<const std::uint8_t>> read(const ByteSource& file, const ShardEntry& entry,
                                             std::vector<std::uint8_t>& buffer) const override {
    buffer.resize(entry.bytes);
    PHUB_RETURN_IF_ERROR(file.read(entry.offset, buffer));
    return std::span<const std::uint8_t>(buffer);
  }
};

}  // namespace

Result<std::unique_ptr<SampleSet>> open_webdataset(const std::filesystem::path& path, Split split,
                                                   const OpenOptions& options) {
  return open_shard_set(path, split, ShardKind::kTar, std::make_unique<TarFormat>(), options);
}

}  // namespace phub::data
