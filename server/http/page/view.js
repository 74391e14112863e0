// The server, its cores and its jobs, from the state and the rates: descriptions only, no requests,
// no timers.
import {h, table} from "./dom.js";
import * as format from "./format.js";
import {bar, curves, hue, isLive, roundBar, sinceFirst, stateCell, sum, workersDue, workersHere} from "./parts.js";
import {certificatesView} from "./records.js";

export function summaryView({server, jobs, tenant}) {
  const facts = [
    ...(tenant ? [["View of tenant", tenant]] : []),
    ["State", server.draining ? "draining: no new jobs" : "serving"],
    ["Version", server.version],
    ["Up for", format.span(server.uptime_seconds)],
    ...(tenant ? [] : [["Memory", format.bytes(server.resident_bytes)]]),
    ["Data over tcp", server.encrypts_data ? "encrypted" : "not encrypted"],
    ["Live jobs", format.count(server.jobs)],
    ["Workers", format.count(sum(jobs.filter(isLive).map(workersHere)))],
  ];
  return facts.map(([name, value]) => h("div", {"data-key": name}, h("dt", {}, name), h("dd", {}, value)));
}

// What of a core's time is no shown job's; a tenant is not told more of the others.
const restOf = (tenant) => (tenant ? "other tenants, polling" : "polling, transfer");

function coreView(core, rates, tenant) {
  const jobs = core.jobs.map((job) => ({...job, busy: Math.min(1, rates.jobs.get(job.job_id) ?? 0)}));
  const known = sum(jobs.map((job) => job.busy));
  const scale = known > core.busy_share && known > 0 ? core.busy_share / known : 1;
  const segments = jobs.map((job) => ({
    key: String(job.job_id), kind: hue(job.job_id), value: job.busy * scale, title: `${job.name}: ${format.share(job.busy)}`,
  }));
  const rest = Math.max(0, core.busy_share - known * scale);
  segments.push({key: "rest", kind: "other", value: rest, title: restOf(tenant)});
  const queued = sum(jobs.map((job) => job.queued_pushes));
  const names = jobs.map((job) => h("li", {"data-key": String(job.job_id)},
    h("span", {class: `swatch ${hue(job.job_id)}`, "aria-hidden": "true"}),
    h("span", {}, `${job.name} ${format.share(job.busy)}`)));
  if ((names.length > 0 || tenant) && rest >= 0.005) {
    names.push(h("li", {"data-key": "rest"}, h("span", {class: "swatch other", "aria-hidden": "true"}),
      h("span", {}, `${restOf(tenant)} ${format.share(rest)}`)));
  }
  return h("li", {class: "core", "data-key": String(core.core)},
    h("div", {class: "line"},
      h("strong", {}, `Core ${core.core}`), h("span", {class: "dim"}, core.cpu < 0 ? "not pinned" : `CPU ${core.cpu}`),
      h("span", {class: "figure"}, `${format.share(core.busy_share)} busy`)),
    bar(segments, `Core ${core.core} is busy ${format.share(core.busy_share)} of the time`),
    rates.history.length > 1 && curves(rates.history, ["busy"], 1, `Busy in the last ${sinceFirst(rates.history)}`),
    h("div", {class: "line dim"}, `in ${format.byteRate(rates.received)}`, h("span", {}, `out ${format.byteRate(rates.sent)}`),
      !tenant && h("span", {}, `${core.connections} connections`), queued > 0 && h("span", {}, `${format.count(queued)} pushes queued`)),
    names.length > 0 && h("ul", {class: "names"}, names));
}

export function coresView(state, rates) {
  return h("ul", {class: "cores"}, state.server.cores.map((core, index) => coreView(core, rates.cores[index], state.tenant)));
}

function jobRow(job, rates, chosen) {
  const pace = rates.jobs.get(job.job_id);
  const isChosen = job === chosen;
  return {
    key: String(job.job_id),
    current: isChosen,
    cells: [
      [h("span", {class: `swatch ${hue(job.job_id)}`, "aria-hidden": "true"}),
        h("a", {href: `#job=${job.job_id}`}, job.spec.name)],
      stateCell(job),
      [`${workersHere(job)} of ${workersDue(job)}`,
        job.rack !== "" && h("span", {class: "dim"}, ` rack ${job.rack} of ${job.spec.racks.length}`)],
      format.count(job.statistics.rounds),
      isLive(job) ? format.rate(pace.rounds) : "–",
      isLive(job) ? format.byteRate(pace.received) : "–",
      isLive(job) ? format.byteRate(pace.sent) : "–",
      format.bytes(job.statistics.memory_bytes),
      roundBar(job),
    ],
  };
}

export function jobsView({jobs}, rates, chosen) {
  if (jobs.length === 0) {
    return h("p", {class: "note"}, "No jobs yet: workers make them when they join, or ", h("code", {}, "phubctl job create"), " does.");
  }
  const columns = [{title: "Job", wide: true}, {title: "State"}, {title: "Workers", n: true}, {title: "Rounds", n: true},
    {title: "Rounds/s", n: true}, {title: "In", n: true}, {title: "Out", n: true}, {title: "Memory", n: true},
    {title: "Where a round goes"}];
  const tenants = [...new Set(jobs.map((job) => job.tenant || "default"))].sort();
  const rows = tenants.flatMap((tenant) => {
    const own = jobs.filter((job) => (job.tenant || "default") === tenant)
      .sort((a, b) => isLive(b) - isLive(a) || (isLive(a) ? a.job_id - b.job_id : b.job_id - a.job_id));
    const all = (name) => sum(own.filter(isLive).map((job) => rates.jobs.get(job.job_id)[name]));
    const head = [`Tenant ${tenant}`, h("span", {class: "dim"},
      `${own.filter(isLive).length} live, in ${format.byteRate(all("received"))}, out ${format.byteRate(all("sent"))}`)];
    return [{key: tenant, head}, ...own.map((job) => jobRow(job, rates, chosen))];
  });
  return table("Jobs by tenant", columns, rows);
}

export function restView({server, tenant}) {
  const drops = server.drops.filter((drop) => drop.count > 0);
  const ports = server.ports.map((port) => ({key: `${port.device}/${port.port}`, cells: [
    `${port.device}/${port.port}`, port.link_layer, port.state, format.bytes(port.mtu_bytes), port.cores.join(", "),
    port.bytes_received === undefined ? "–" : format.bytes(port.bytes_received),
    port.bytes_sent === undefined ? "–" : format.bytes(port.bytes_sent)]}));
  const columns = [{title: "RDMA port"}, {title: "Link"}, {title: "State"}, {title: "MTU", n: true}, {title: "Cores"},
    {title: "In", n: true}, {title: "Out", n: true}];
  return [
    ports.length > 0 ? table("RDMA ports", columns, ports)
      : h("p", {class: "note", "data-key": "no ports"}, "No RDMA port serves a core."),
    certificatesView(server),
    !tenant && (drops.length === 0
      ? h("p", {class: "note", "data-key": "no drops"}, "No input was refused since the start.")
      : table("Refused input", [{title: "Refused input"}, {title: "Count", n: true}],
        drops.map((drop) => ({key: drop.cause, cells: [drop.cause, format.count(drop.count)]})))),
  ];
}
