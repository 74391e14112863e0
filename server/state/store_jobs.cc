// Jobs.
#include "server/state/store.h"

namespace phub::server {

Result<std::vector<StoredJob>> Store::take_jobs() {
  PHUB_RETURN_IF_ERROR(change(
      Need::kUrgent, [&] { return database_->execute("UPDATE jobs SET epoch = epoch + 1"); }));
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT j.id, j.epoch, j.tenant, t.name, j.spec, j.nonce_hash, j.snapshot "
      "FROM jobs j JOIN tenants t ON t.id = j.tenant");
  return query.rows<StoredJob>([&] {
    return StoredJob{.id = query.integer<std::uint64_t>(0),
                     .epoch = query.integer<std::uint32_t>(1),
                     .tenant_id = query.integer<std::uint32_t>(2),
                     .tenant = query.text(3),
                     .spec = query.text(4),
                     .nonce_hash = query.digest(5),
                     .snapshot = query.text(6)};
  });
}

Status Store::add_job(const StoredJob& job) {
  return change(Need::kOrdinary, [&] {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(job.spec.data());
    return database_
        ->prepare(
            "INSERT INTO jobs (id, epoch, tenant, spec, nonce_hash, snapshot) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, "
            "tenant = excluded.tenant, spec = excluded.spec, nonce_hash = excluded.nonce_hash, "
            "snapshot = excluded.snapshot")
        .bind(job.id, job.epoch, job.tenant_id, std::span(bytes, job.spec.size()), job.nonce_hash,
              job.snapshot)
        .run();
  });
}

Status Store::remove_job(std::uint64_t id) {
  return change(Need::kUrgent,
                [&] { return database_->prepare("DELETE FROM jobs WHERE id = ?").bind(id).run(); });
}

}  // namespace phub::server
