// What is shown, from the state and the rates: descriptions only, no requests, no timers.
import {h, table} from "./dom.js";
import * as format from "./format.js";

const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
const marks = {running: "▶", waiting: "◔", ended: "■", failed: "✕"};
const isLive = (job) => job.state === "running" || job.state === "waiting";

// In the order of a step. The explanations stand in the legend.
const parts = [
  ["compute", "Compute", "the workers compute, the server is idle for this job"],
  ["push", "Push", "from the first push until the median worker has pushed all; the backward pass overlaps it"],
  ["wait", "Wait for the slowest", "from there until the slowest worker has pushed all"],
  ["racks", "Wait for other racks", "from there until their sums and replies are here; this rack's own sums are made meanwhile"],
  ["aggregate", "Aggregate", "from there until the last chunk is summed and updated"],
  ["reply", "Reply", "from there until the last reply is sent"],
];

const partsOf = (timing) => parts.filter(([key]) => key !== "racks" || timing.racks.length > 0);

// Of this server's rack: those that are there, and how many there are to be.
const workersOf = (job) => job.members.filter((member) => !member.rack);
const workersHere = (job) => workersOf(job).filter((member) => !member.left).length;
const workersDue = ({spec, rack}) => spec.racks.find(({name}) => name === rack)?.workers ?? spec.workers;

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

// One colour for a job wherever it is drawn; six, then again.
const hue = (id) => `job-${id % 6}`;

function bar(segments, label) {
  return h("div", {class: "bar", role: "img", "aria-label": label}, segments.map(({key, kind, value, title}) =>
    h("span", {class: `segment ${kind}`, "data-key": key, title, style: {width: `${(100 * value).toFixed(2)}%`}})));
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
    h("span", {class: `swatch ${hue(job.job_id)}`, "aria-hidden": "true"}), `${job.name} ${format.share(job.busy)}`));
  if ((names.length > 0 || tenant) && rest >= 0.005) {
    names.push(h("li", {"data-key": "rest"}, h("span", {class: "swatch other", "aria-hidden": "true"}),
      `${restOf(tenant)} ${format.share(rest)}`));
  }
  return h("li", {class: "core", "data-key": String(core.core)},
    h("div", {class: "line"},
      h("strong", {}, `Core ${core.core}`), h("span", {class: "dim"}, core.cpu < 0 ? "not pinned" : `CPU ${core.cpu}`),
      h("span", {class: "figure"}, `${format.share(core.busy_share)} busy`)),
    bar(segments, `Core ${core.core} is busy ${format.share(core.busy_share)} of the time`),
    h("div", {class: "line dim"}, `in ${format.byteRate(rates.received)}`, h("span", {}, `out ${format.byteRate(rates.sent)}`),
      !tenant && h("span", {}, `${core.connections} connections`), queued > 0 && h("span", {}, `${format.count(queued)} pushes queued`)),
    names.length > 0 && h("ul", {class: "names"}, names));
}

export function coresView(state, rates) {
  return h("ul", {class: "cores"}, state.server.cores.map((core, index) => coreView(core, rates.cores[index], state.tenant)));
}

function stateCell(job) {
  return h("span", {class: `state ${job.state}`}, h("span", {"aria-hidden": "true"}, marks[job.state]), ` ${job.state}`);
}

function roundBar(job) {
  const {timing} = job;
  if (!timing || timing.round_seconds <= 0) return h("span", {class: "dim"}, "–");
  const shares = partsOf(timing).map(([key, name]) => ({
    key, kind: key, value: timing[`${key}_seconds`] / timing.round_seconds, title: name,
  }));
  const text = shares.map(({title, value}) => `${title} ${format.share(value)}`).join(", ");
  return bar(shares, text);
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
  const columns = [{title: "Job"}, {title: "State"}, {title: "Workers", n: true}, {title: "Rounds", n: true},
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

const roundsToBlame = 10;  // the first steps are like no others

// The straggler in words; the same bounds as `phubctl job explain`.
export function straggler(job) {
  const workers = job.timing?.workers ?? [];
  if (workers.length < 2) return null;
  if (job.timing.rounds < roundsToBlame) {
    return {isLate: false, text: `Which worker is the slowest shows after ${roundsToBlame} rounds.`};
  }
  const last = workers.reduce((a, b) => (b.last_share > a.last_share ? b : a));
  const member = workersOf(job).find((m) => m.worker_index === last.worker_index);
  const who = `Worker ${last.worker_index}` + (member ? ` (${member.host}, pid ${member.process_id})` : "");
  const isLate = last.last_share >= 0.5 && last.last_share > 1.5 / workers.length
    && last.late_seconds >= 0.05 * job.timing.round_seconds;
  const found = `the last in ${format.share(last.last_share)} of the last ${job.timing.rounds} rounds, `
    + `${format.time(last.late_seconds)} after the median worker on average`;
  return isLate
    ? {isLate, text: `${who} is the straggler: it was ${found}. The others wait for it.`}
    : {isLate, text: `No straggler: ${who.replace("Worker", "worker")} was most often ${found}.`};
}

function roundView(job) {
  const {timing} = job;
  if (!timing || timing.round_seconds <= 0) {
    return h("p", {class: "note"}, "Where the time of a round goes is known after its second round.");
  }
  const legend = partsOf(timing).map(([key, name, help]) => h("div", {"data-key": key},
    h("dt", {title: help}, h("span", {class: `swatch ${key}`, "aria-hidden": "true"}), name),
    h("dd", {}, h("span", {}, format.time(timing[`${key}_seconds`])),
      h("span", {class: "dim"}, format.share(timing[`${key}_seconds`] / timing.round_seconds)))));
  const found = straggler(job);
  return h("div", {"data-key": "round"},
    h("h3", {}, "Where a round goes"),
    h("p", {class: "dim"}, `${format.time(timing.round_seconds)} for a round, mean of the last ${timing.rounds}; `
      + `the cores here work ${format.time(timing.core_seconds)} of it, all together`),
    roundBar(job), h("dl", {class: "legend"}, legend),
    found && h("p", {class: found.isLate ? "straggler late" : "straggler"}, found.isLate && h("b", {}, "Straggler. "), found.text));
}

function paceView(pace) {
  const past = pace.history;
  if (past.length < 2) return null;
  const most = Math.max(...past, 1e-9);
  const points = past.map((value, index) => `${(100 * index / (past.length - 1)).toFixed(1)},${(30 - 28 * value / most).toFixed(1)}`);
  return h("div", {class: "pace", "data-key": "pace"},
    h("h3", {}, "Rounds per second"),
    h("svg", {viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img",
      "aria-label": `Now ${format.rate(past.at(-1))}, at most ${format.rate(most)} in ${past.length} seconds`},
    h("polyline", {points: points.join(" "), "vector-effect": "non-scaling-stroke"})),
    h("p", {class: "line dim"}, h("span", {}, `${past.length}\u202fs ago`), h("span", {}, `most ${format.rate(most)}`),
      h("span", {class: "figure"}, `now ${format.rate(past.at(-1))}`)));
}

// What a worker's connections to this server are: shm stays within the host and is not encrypted.
const transportOf = (member, server) =>
  member.transport + (member.transport === "tcp" && server.encrypts_data ? ", encrypted" : "");

// Steps whose updates were left out; of a job without a loss scale there are none to tell of.
function skippedView({spec, statistics}) {
  const {rounds, rounds_skipped: skipped, updates_skipped: updates} = statistics;
  const facts = [];
  if (spec.loss_scaling === "voted" || skipped > 0) {
    facts.push(`Steps skipped by vote: ${format.count(skipped)} of ${format.count(rounds)} rounds`
      + (skipped > 0 ? ` (${format.share(skipped / Math.max(rounds, 1))})` : ""));
  }
  if (spec.loss_scaling === "static" || updates > 0) {
    facts.push(`Updates of chunks left out, not finite: ${format.count(updates)}`);
  }
  return facts.length > 0 && h("p", {class: "note", "data-key": "skipped"}, facts.join(". "));
}

// Training goes on without snapshots that fail; somebody has to see it.
function snapshotsView({statistics: {snapshots}}) {
  if (!(snapshots?.failed > 0)) return false;
  const all = format.count(snapshots.taken + snapshots.failed);
  return h("p", {class: "note", "data-key": "snapshots"},
    `Snapshots that failed: ${format.count(snapshots.failed)} of ${all}. The last: ${snapshots.last_failure}`);
}

// When chunks' rounds are complete, and what was late: of a job with a quorum.
function quorumView({spec, statistics, members}) {
  const {quorum = 0, grace_ms: grace = 0, staleness, late, turns} = spec.rounds ?? {};
  if (quorum === 0) return null;
  const {rounds = 0, incomplete = 0} = statistics.quorum ?? {};
  const columns = [{title: "Worker"}, ...["0", "1", "2–3", "4–7", "8–15", "16–31", "32 rounds behind"]
    .map((title) => ({title, n: true})), {title: "Dropped", n: true}, {title: "Withheld", n: true}];
  const rows = members.filter((member) => member.staleness).map(({worker_index: worker, staleness: behind}) => (
    {key: String(worker), cells: [String(worker), ...behind.pushes.map((pushes) => format.count(pushes)),
      format.count(behind.dropped), format.count(behind.withheld)]}));
  return h("div", {"data-key": "quorum"}, h("h3", {}, "Rounds"),
    h("p", {class: "note"}, `A round of a chunk is complete with ${quorum} of ${spec.workers} workers, `
      + `after ${format.count(grace)} ms of grace; `
      + `${turns ? "workers take turns" : `workers may be ${staleness ?? "any number of"} rounds ahead`}; `
      + `late pushes are ${late === "add" ? "added" : "dropped"}. `
      + `${format.count(incomplete)} of ${format.count(rounds)} went on without somebody.`),
    rows.length > 0 && table("Pushes by the age of their parameters", columns, rows));
}

function membersView(job, server) {
  const late = new Map((job.timing?.workers ?? []).map((worker) => [worker.worker_index, worker]));
  const columns = [{title: "Worker"}, {title: "Host"}, {title: "Pid", n: true}, {title: "Transport"},
    {title: "Last in", n: true}, {title: "Late", n: true}, {title: "In", n: true}, {title: "Out", n: true}, {title: "Heard", n: true}];
  const rows = workersOf(job).map((member) => {
    const worker = late.get(member.worker_index);
    return {key: String(member.worker_index), cells: [
      String(member.worker_index), member.host, String(member.process_id),
      h("span", {title: member.transport_reason}, transportOf(member, server) || "–",
        member.transport_reason && h("span", {class: "dim reason"}, member.transport_reason)),
      worker ? format.share(worker.last_share) : "–", worker ? format.time(worker.late_seconds) : "–",
      format.bytes(member.bytes_received), format.bytes(member.bytes_sent),
      member.lost ? "lost" : member.left ? "left" : `${format.time(member.heartbeat_age_ms / 1000)} ago`]};
  });
  return h("div", {"data-key": "members"}, h("h3", {}, "Workers"),
    rows.length > 0 ? table("Workers", columns, rows) : h("p", {class: "note"}, "None has joined."));
}

// The links to the job's other racks, and which of them the rounds wait for.
function racksView(job, pace) {
  if (job.rack_links.length === 0) return null;
  const timing = new Map((job.timing?.racks ?? []).map((rack) => [rack.rack, rack]));
  const columns = [{title: "Rack"}, {title: "Workers", n: true}, {title: "Sums up", n: true}, {title: "Replies down", n: true},
    {title: "Sums from below", n: true}, {title: "Replies to it", n: true}, {title: "Out", n: true}, {title: "In", n: true},
    {title: "Late", n: true}, {title: "Last in", n: true}];
  const rows = job.rack_links.map((link) => {
    const times = timing.get(link.rack);
    const {sent, received} = pace.racks.get(link.rack);
    return {key: link.rack, cells: [
      link.rack, format.count(link.workers), format.bytes(link.bytes_up_sent), format.bytes(link.bytes_up_received),
      format.bytes(link.bytes_down_received), format.bytes(link.bytes_down_sent),
      isLive(job) ? format.byteRate(sent) : "–", isLive(job) ? format.byteRate(received) : "–",
      times ? format.time(times.late_seconds) : "–", times ? format.share(times.last_share) : "–"]};
  });
  return h("div", {"data-key": "racks"}, h("h3", {}, `Links of rack ${job.rack} (${job.spec.rack_shape})`),
    table("Links to other racks", columns, rows));
}

function planView(plan) {
  if (!plan) return null;
  const most = Math.max(...plan.loads.map((load) => load.bytes), 1);
  const all = sum(plan.loads.map((load) => load.bytes));
  const rows = plan.loads.map((load) => {
    const isHere = load.server === plan.server;
    const name = `${isHere ? "" : `Server ${load.server}, `}core ${load.core}`;
    return h("li", {"data-key": `${load.server} ${load.core}`},
      h("div", {class: "line"}, name[0].toUpperCase() + name.slice(1),
        h("span", {class: "dim", title: `${format.count(load.chunks)} chunks`}, format.bytes(load.bytes)),
        h("span", {class: "figure"}, format.share(load.bytes / Math.max(all, 1)))),
      bar([{key: "load", kind: isHere ? "here" : "other", value: load.bytes / most, title: name}],
        `${name}: ${format.share(load.bytes / Math.max(all, 1))} of the job's bytes`));
  });
  return h("div", {"data-key": "plan"}, h("h3", {}, "Plan: bytes by core"), h("ul", {class: "cores plan"}, rows));
}

export function jobView(job, state, rates) {
  const {spec} = job;
  const plan = state.plans.find((entry) => entry.job_id === job.job_id);
  return [
    h("h2", {id: "job-title"}, `Job ${spec.name} `, stateCell(job),
      h("span", {class: "dim"}, ` ${spec.rule}, ${spec.wire_type}, ${spec.order} order, chunks of ${format.bytes(spec.chunk_bytes)}`)),
    job.reason && h("p", {class: "note", "data-key": "reason"}, job.reason),
    skippedView(job),
    snapshotsView(job),
    quorumView(job),
    h("div", {class: "columns", "data-key": String(job.job_id)},
      h("div", {}, roundView(job), membersView(job, state.server), racksView(job, rates.jobs.get(job.job_id))),
      h("div", {}, paceView(rates.jobs.get(job.job_id)), planView(plan))),
  ];
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
    !tenant && (drops.length === 0
      ? h("p", {class: "note", "data-key": "no drops"}, "No input was refused since the start.")
      : table("Refused input", [{title: "Refused input"}, {title: "Count", n: true}],
        drops.map((drop) => ({key: drop.cause, cells: [drop.cause, format.count(drop.count)]})))),
  ];
}
