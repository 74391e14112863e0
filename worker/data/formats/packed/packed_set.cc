#include "worker/data/formats/packed/packed_set.h"

#include <algorithm>
#include <cstring>

#include "common/base/log_value.h"
#include "common/text/url.h"
#include "worker/data/formats/fingerprint.h"
#include "worker/data/formats/http/http_file.h"
#include "worker/data/formats/packed/pack_format.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxNamesBytes = kMaxClasses * (kMaxClassNameBytes + 2);

std::span<std::uint8_t> writable_bytes(void* data, std::size_t bytes) {
  return {static_cast<std::uint8_t*>(data), bytes};
}

Status check_version(const ByteSource& file, const PackHeader& header) {
  if (std::memcmp(header.magic, kPackMagic.data(), kPackMagic.size()) != 0) {
    return file.refused(0, "this is no packed data set, which begins with " +
                               std::string(kPackMagic) + "; give one that was packed to its end");
  }
  if (header.version == kPackVersion) return {};
  return file.refused(8, "the packed data set has version " + std::to_string(header.version) +
                             ", and this program reads version " + std::to_string(kPackVersion) +
                             "; pack it again with this program");
}

// Bounds before anything is allocated.
Status check_header(const ByteSource& file, const PackHeader& header) {
  PHUB_RETURN_IF_ERROR(check_version(file, header));
  if (header.header_crc != crc_of(header)) return file.damaged(0, "the header's checksum is wrong");
  if (header.file_bytes != file.bytes()) {
    return file.damaged(0, "the file has " + std::to_string(file.bytes()) +
                               " bytes and should have " + std::to_string(header.file_bytes));
  }
  if (header.samples == 0 || header.samples > kMaxSamples || header.classes == 0 ||
      header.classes > kMaxClasses) {
    return file.refused(0, std::to_string(header.samples) + " samples of " +
                               std::to_string(header.classes) + " classes; it may be 1 to " +
                               std::to_string(kMaxSamples) + " of 1 to " +
                               std::to_string(kMaxClasses) + ": pack less");
  }
  const std::uint64_t index_bytes = header.samples * sizeof(PackEntry);
  const std::uint64_t size = header.file_bytes;
  if (header.index_offset < sizeof(PackHeader) || header.index_offset > size ||
      size - header.index_offset < index_bytes ||
      header.names_offset != header.index_offset + index_bytes ||
      size - header.names_offset > kMaxNamesBytes) {
    return file.damaged(0, "the header's offsets of index (" + std::to_string(header.index_offset) +
                               ") and names (" + std::to_string(header.names_offset) +
                               ") do not fit together");
  }
  return {};
}

Result<std::vector<PackEntry>> read_index(const ByteSource& file, const PackHeader& header) {
  std::vector<PackEntry> entries(header.samples);
  PHUB_RETURN_IF_ERROR(file.read(
      header.index_offset, writable_bytes(entries.data(), entries.size() * sizeof(PackEntry))));
  if (crc32c(std::as_bytes(std::span<const PackEntry>(entries))) != header.index_crc) {
    return file.damaged(header.index_offset, "the index's checksum is wrong");
  }
  std::uint64_t begin = sizeof(PackHeader);
  for (const PackEntry& entry : entries) {
    if (!is_right(entry, begin, header.classes) || entry.end() > header.index_offset) {
      const auto place = static_cast<std::uint64_t>(&entry - entries.data());
      return file.damaged(header.index_offset + place * sizeof(PackEntry),
                          "sample " + std::to_string(place) + " of the index is impossible");
    }
    begin = entry.end();
  }
  if (begin != header.index_offset) {
    return file.damaged(header.index_offset, "the index does not begin behind the last sample");
  }
  return entries;
}

Result<std::vector<std::string>> read_names(const ByteSource& file, const PackHeader& header) {
  std::string text(file.bytes() - header.names_offset, '\0');
  PHUB_RETURN_IF_ERROR(file.read(header.names_offset, writable_bytes(text.data(), text.size())));
  if (crc32c(std::as_bytes(std::span<const char>(text))) != header.names_crc) {
    return file.damaged(header.names_offset, "the checksum of the classes' names is wrong");
  }
  std::vector<std::string> names;
  std::string_view rest = text;
  while (rest.size() >= 2 && names.size() < header.classes) {
    std::uint16_t bytes = 0;
    std::memcpy(&bytes, rest.data(), sizeof(bytes));
    rest.remove_prefix(sizeof(bytes));
    if (bytes > rest.size() || bytes > kMaxClassNameBytes) break;
    names.emplace_back(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  if (names.size() == header.classes && rest.empty()) return names;
  return file.damaged(header.names_offset,
                      "these are not the names of " + std::to_string(header.classes) + " classes");
}

class PackedSet final : public SampleSet {
 public:
  PackedSet(std::unique_ptr<ByteSource> file, const PackHeader& header,
            std::vector<PackEntry> entries, std::vector<std::string> classes)
      : file_(std::move(file)),
        header_(header),
        entries_(std::move(entries)),
        classes_(std::move(classes)) {}

  std::uint64_t samples() const override { return entries_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::uint16_t label(std::uint64_t sample) const override { return entries_[sample].label; }

  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override {
    const PackEntry& entry = entries_[sample];
    buffer.resize(entry.content_bytes());
    PHUB_RETURN_IF_ERROR(file_->read(entry.offset, buffer));
    const std::span<const std::uint8_t> all(buffer);
    if (crc32c(std::as_bytes(all)) != entry.crc) {
      return file_->damaged(entry.offset, "sample " + std::to_string(sample) + " (" +
                                              own_name(entry) + ") has a wrong checksum");
    }
    return all.first(entry.bytes);
  }

  std::string name(std::uint64_t sample) const override {
    const PackEntry& entry = entries_[sample];
    return file_->name() + " at offset " + std::to_string(entry.offset) + " (" + own_name(entry) +
           ')';
  }
  // The index has the checksum of each sample, so a copy of the file has the same number.
  std::uint64_t fingerprint() const override {
    return Fingerprint()
        .add(header_.file_bytes)
        .add(header_.samples)
        .add(std::uint64_t{header_.index_crc} << 32U | header_.names_crc)
        .value();
  }
  std::uint64_t content_number() const override { return fingerprint(); }
  std::uint64_t index_bytes() const override {
    std::uint64_t bytes = entries_.capacity() * sizeof(PackEntry);
    for (const std::string& name : classes_) bytes += sizeof(std::string) + name.size();
    return bytes;
  }

 private:
  // What it was called before it was packed; it is only in the file.
  std::string own_name(const PackEntry& entry) const {
    std::string text(entry.name_bytes, '\0');
    const Status status =
        file_->read(entry.offset + entry.bytes, writable_bytes(text.data(), text.size()));
    return status.ok() ? one_line(text) : "its name cannot be read";
  }

  std::unique_ptr<ByteSource> file_;
  PackHeader header_;
  std::vector<PackEntry> entries_;
  std::vector<std::string> classes_;
};

// A file's own URL, or that of `name` in a folder. What follows a '?' is the server's.
std::string url_of(const std::string& url, const std::string& name) {
  const std::size_t end = std::min(url.find_first_of("?#"), url.size());
  std::string place = url.substr(0, end);
  if (!place.ends_with(".phub")) place += (place.ends_with('/') ? "" : "/") + name;
  return place + url.substr(end);
}

Result<std::unique_ptr<ByteSource>> open_source(const fs::path& path) {
  if (is_url(path.native())) return open_http_file(path.native());
  PHUB_ASSIGN_OR_RETURN(SourceFile file, SourceFile::open(path));
  return std::unique_ptr<ByteSource>(std::make_unique<SourceFile>(std::move(file)));
}

}  // namespace

fs::path packed_file(const fs::path& path, Split split) {
  const std::string name = std::string(name_of(split)) + ".phub";
  if (is_url(path.native())) return url_of(path.native(), name);
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  return path / name;
}

Result<std::unique_ptr<SampleSet>> open_packed(const fs::path& path, Split split) {
  PHUB_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, open_source(packed_file(path, split)));
  PackHeader header;
  PHUB_RETURN_IF_ERROR(file->read(0, writable_bytes(&header, sizeof(header))));
  PHUB_RETURN_IF_ERROR(check_header(*file, header));
  PHUB_ASSIGN_OR_RETURN(std::vector<PackEntry> entries, read_index(*file, header));
  PHUB_ASSIGN_OR_RETURN(std::vector<std::string> names, read_names(*file, header));
  return std::unique_ptr<SampleSet>(
      std::make_unique<PackedSet>(std::move(file), header, std::move(entries), std::move(names)));
}

}  // namespace phub::data
