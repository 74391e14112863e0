#include "worker/data/formats/packed/pack_writer.h"

#include <algorithm>
#include <cstring>

namespace phub::data {
namespace {

namespace fs = std::filesystem;

fs::path with_ending(const fs::path& path, const char* ending) {
  fs::path changed = path;
  return changed += ending;
}

}  // namespace

Result<std::string> pack_names(const std::vector<std::string>& classes) {
  if (classes.empty() || classes.size() > kMaxClasses) {
    return Status(Code::kInvalidArgument, std::to_string(classes.size()) +
                                              " classes; a packed data set has 1 to " +
                                              std::to_string(kMaxClasses));
  }
  std::string packed;
  for (const std::string& name : classes) {
    if (name.size() > kMaxClassNameBytes) {
      return Status(Code::kInvalidArgument,
                    "a class's name has " + std::to_string(name.size()) + " bytes; the most is " +
                        std::to_string(kMaxClassNameBytes) + ": make it shorter");
    }
    const auto bytes = static_cast<std::uint16_t>(name.size());
    packed.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    packed.append(name);
  }
  return packed;
}

Result<std::unique_ptr<PackWriter>> PackWriter::create(const fs::path& path,
                                                       const PackWriterOptions& options) {
  PHUB_ASSIGN_OR_RETURN(std::string names, pack_names(options.classes));
  const PackSource source{.number = options.source,
                          .classes = static_cast<std::uint32_t>(options.classes.size()),
                          .names_crc = crc32c(std::as_bytes(std::span<const char>(names)))};
  PHUB_ASSIGN_OR_RETURN(PartialFile file, PartialFile::open(with_ending(path, ".partial")));
  const fs::path journal_path = with_ending(path, ".partial.journal");
  std::error_code ignored;
  if (!options.resume) fs::remove(journal_path, ignored);
  PHUB_ASSIGN_OR_RETURN(PackJournal journal, PackJournal::open(journal_path, source));
  std::unique_ptr<PackWriter> writer(
      new PackWriter(path, options, std::move(names), std::move(file), std::move(journal)));
  PHUB_RETURN_IF_ERROR(writer->take_kept());
  return writer;
}

PackWriter::PackWriter(const fs::path& path, const PackWriterOptions& options, std::string names,
                       PartialFile file, PackJournal journal)
    : path_(path),
      options_(options),
      names_(std::move(names)),
      file_(std::move(file)),
      journal_(std::move(journal)) {}

PackWriter::~PackWriter() {
  // What cannot be kept is packed again.
  if (!is_finished_ && status_.ok()) static_cast<void>(commit().ok());
}

// The journal's order of writing makes sure of its samples; the last batch is read nonetheless.
Status PackWriter::take_kept() {
  if (options_.resume) entries_ = journal_.entries(file_.bytes());
  std::uint64_t read = 0;
  std::size_t checked = entries_.size();
  while (checked > 0 && read < options_.batch_bytes) {
    --checked;
    read += entries_[checked].content_bytes();
    if (!has_right_data(entries_[checked])) entries_.resize(checked);
  }
  if (!entries_.empty()) end_ = entries_.back().end();
  committed_ = entries_.size();
  committed_end_ = end_;
  PHUB_RETURN_IF_ERROR(journal_.keep(committed_));
  return file_.cut(committed_ == 0 ? 0 : end_);
}

bool PackWriter::has_right_data(const PackEntry& entry) {
  block_.resize(entry.content_bytes());
  const std::span<std::byte> block = std::as_writable_bytes(std::span<std::uint8_t>(block_));
  return file_.read(entry.offset, block) && crc32c(block) == entry.crc;
}

Status PackWriter::append(std::span<const std::uint8_t> bytes, std::uint16_t label,
                          std::string_view name) {
  PHUB_RETURN_IF_ERROR(status_);
  if (bytes.empty() || bytes.size() > kMaxSampleBytes) {
    return {Code::kInvalidArgument, "a sample of " + std::to_string(bytes.size()) +
                                        " bytes; it may have 1 to " +
                                        std::to_string(kMaxSampleBytes) + ": leave it out"};
  }
  if (label >= options_.classes.size()) {
    return {Code::kInvalidArgument, "label " + std::to_string(label) + " of " +
                                        std::to_string(options_.classes.size()) +
                                        " classes; name them all"};
  }
  if (entries_.size() >= kMaxSamples) {
    return {Code::kInvalidArgument,
            "a packed file has at most " + std::to_string(kMaxSamples) + " samples; make two"};
  }
  name = name.substr(0, kMaxSampleNameBytes);
  status_ = write_sample({.offset = end_,
                          .bytes = static_cast<std::uint32_t>(bytes.size()),
                          .label = label,
                          .name_bytes = static_cast<std::uint16_t>(name.size())},
                         bytes, name);
  if (status_.ok() && end_ - committed_end_ >= options_.batch_bytes) status_ = commit();
  return status_;
}

Status PackWriter::write_sample(const PackEntry& entry, std::span<const std::uint8_t> bytes,
                                std::string_view name) {
  // One write for the image, the name and the zeros.
  block_.assign(entry.end() - entry.offset, 0);
  std::copy(bytes.begin(), bytes.end(), block_.begin());
  std::copy(name.begin(), name.end(), block_.begin() + static_cast<std::ptrdiff_t>(bytes.size()));
  const auto block = std::as_bytes(std::span<const std::uint8_t>(block_));
  PHUB_RETURN_IF_ERROR(file_.write(end_, block));
  entries_.push_back(entry);
  entries_.back().crc = crc32c(block.first(entry.content_bytes()));
  end_ = entry.end();
  return {};
}

Status PackWriter::commit() {
  if (committed_ == entries_.size()) return {};
  PHUB_RETURN_IF_ERROR(file_.sync());
  PHUB_RETURN_IF_ERROR(journal_.append(std::span<const PackEntry>(entries_).subspan(committed_)));
  committed_ = entries_.size();
  committed_end_ = end_;
  return {};
}

Status PackWriter::finish() {
  PHUB_RETURN_IF_ERROR(status_);
  if (entries_.empty()) return {Code::kInvalidArgument, "no sample to pack; append one"};
  status_ = commit();
  if (status_.ok()) status_ = write_end();
  if (status_.ok()) status_ = file_.rename_to(path_);
  if (!status_.ok()) return status_;
  is_finished_ = true;
  std::error_code ignored;  // without its data a journal is begun anew
  fs::remove(journal_.path(), ignored);
  return {};
}

Status PackWriter::write_end() {
  const auto index = std::as_bytes(std::span<const PackEntry>(entries_));
  const auto names = std::as_bytes(std::span<const char>(names_));
  PackHeader header{.classes = static_cast<std::uint32_t>(options_.classes.size()),
                    .samples = entries_.size(),
                    .index_offset = end_,
                    .names_offset = end_ + index.size(),
                    .file_bytes = end_ + index.size() + names.size(),
                    .index_crc = crc32c(index),
                    .names_crc = crc32c(names)};
  std::memcpy(header.magic, kPackMagic.data(), kPackMagic.size());
  header.header_crc = crc_of(header);
  PHUB_RETURN_IF_ERROR(file_.write(header.index_offset, index));
  PHUB_RETURN_IF_ERROR(file_.write(header.names_offset, names));
  return file_.write(0, bytes_of(header));
}

}  // namespace phub::data
