// What lies on the server's disk: tenants with their quotas, snapshots, the audit log; and when
// certificates expire. Descriptions only.
import {h, table} from "./dom.js";
import * as format from "./format.js";

const MIB = 2 ** 20;
const NEAR = 0.9;            // of a quota: it is told
const SOON_SECONDS = 30 * 86400;

const now = () => Date.now() / 1000;
const note = (key, text) => h("p", {class: "note", "data-key": key}, text);

// "3 of 10"; a quota of 0 is none: the server has bounds of its own.
function use(used, quota, shown) {
  if (quota === 0) return h("span", {}, shown(used), h("span", {class: "dim"}, " no quota"));
  return h("span", {class: used >= NEAR * quota ? "near" : null}, `${shown(used)} of ${shown(quota)}`);
}

export function quotasView(records) {
  if (records === null) return note("later", "They are asked for.");
  const columns = [{title: "Tenant", wide: true}, {title: "Live jobs", n: true}, {title: "Connections", n: true},
    {title: "Memory", n: true}, {title: "Snapshots", n: true}, {title: "Weight", n: true}, {title: "Tokens", n: true}];
  const rows = records.tenants.map((tenant) => ({key: tenant.name, cells: [
    tenant.name, use(tenant.live_jobs, tenant.quotas.jobs, format.count),
    use(tenant.connections, tenant.quotas.connections, format.count),
    use(tenant.memory_bytes, MIB * tenant.quotas.memory_mib, format.bytes),
    use(tenant.disk_bytes, MIB * tenant.quotas.disk_mib, format.bytes),
    format.count(tenant.quotas.weight), format.count(tenant.tokens)]}));
  return table("Tenants and what they use of their quotas", columns, rows);
}

const ago = (seconds) => `${format.age(now() - seconds)} ago`;

export function snapshotsView(records) {
  if (records === null) return note("later", "They are asked for.");
  if (!records.keeps_snapshots) return note("none", "The server keeps none: its configuration has no state_folder.");
  const {snapshots, snapshots_in_all: all} = records;
  if (all === 0) return [note("none", "There are none yet: phubctl snapshot takes one, and so do workers that are told to.")];
  const columns = [{title: "Job", wide: true}, {title: "Tenant", wide: true}, {title: "Round", n: true}, {title: "Size", n: true},
    {title: "Written", n: true}, {title: "File", wide: true}];
  const rows = snapshots.map((file) => ({key: file.file, cells: [
    file.job, file.tenant, format.count(file.round), format.bytes(file.bytes),
    h("span", {title: format.date(file.unix_seconds)}, ago(file.unix_seconds)), h("code", {}, file.file)]}));
  return [h("div", {class: "scrolled", tabindex: "0", role: "region", "aria-label": "Snapshots", "data-key": "table"},
    table("Snapshots, the newest first", columns, rows)),
  all > snapshots.length && note("more", `The newest ${snapshots.length} of ${format.count(all)}; phubctl snapshots lists all.`)];
}

export function auditView(records) {
  if (!records?.sees_audit) return null;
  if (records.audit.length === 0) return note("none", "Nothing was changed, and nobody was refused.");
  const columns = [{title: "Time"}, {title: "Who", wide: true}, {title: "Action"}, {title: "Object", wide: true},
    {title: "Outcome", wide: true}];
  const rows = records.audit.map((entry, index) => ({key: `${entry.unix_milliseconds} ${index}`, cells: [
    format.date(entry.unix_milliseconds / 1000), entry.principal, entry.action, entry.object || "–", entry.outcome]}));
  return h("div", {class: "scrolled", tabindex: "0", role: "region", "aria-label": "Audit", "data-key": "table"},
    table("The last records of the audit log", columns, rows));
}

function expiry(seconds) {
  const left = seconds - now();
  if (left <= 0) return h("span", {class: "near"}, `expired ${ago(seconds)}`);
  return h("span", {class: left < SOON_SECONDS ? "near" : null}, `in ${format.age(left)}`);
}

// The certificates of the control port.
export function certificatesView({certificates}) {
  if (certificates.length === 0) return note("no certificates", "The control port has no certificate: it is plaintext.");
  const names = {certificate: "of the server", ca: "of the CA"};
  return table("Certificates", [{title: "Certificate"}, {title: "Expires", n: true}, {title: "On", n: true}],
    certificates.map(({what, expires_unix_seconds: at}) =>
      ({key: what, cells: [names[what] ?? what, expiry(at), format.date(at)]})));
}
