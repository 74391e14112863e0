// One job: where its rounds go, its workers, its pace and its plan. Descriptions only.
import {h, table} from "./dom.js";
import * as format from "./format.js";
import {bar, curves, isLive, partsOf, prose, roundBar, sinceFirst, stateCell, sum, workersOf} from "./parts.js";

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

function whyNoRound(job) {
  if (!isLive(job)) return "Where a round's time goes is measured while a job runs, and forgotten when it ends.";
  if ((job.spec.rounds?.quorum ?? 0) > 0) return "The job has a quorum: its chunks have no rounds together to take apart.";
  return "Where the time of a round goes is known after its second round.";
}

function roundView(job) {
  const {timing} = job;
  if (!timing || timing.round_seconds <= 0) return h("p", {class: "note", "data-key": "round"}, whyNoRound(job));
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

function rateView(key, title, points, names, rate) {
  const highest = Math.max(...points.flatMap((point) => names.map((name) => point[name])));
  const most = rate(highest);
  const last = names.map((name) => rate(points.at(-1)[name])).join(", ");
  const ago = sinceFirst(points);
  return h("div", {class: "pace", "data-key": key}, h("h3", {}, title),
    curves(points, names, highest, `Last ${last}, at most ${most} since ${ago} ago`),
    h("p", {class: "line dim"}, h("span", {}, `${ago} ago`), h("span", {}, `most ${most}`), h("span", {class: "figure"}, last)));
}

// The job's rates over the last ten minutes.
function paceView({history}) {
  if (history.length < 2) return null;
  const title = ["Bytes per second: ", h("span", {class: "swatch in"}), "in, ", h("span", {class: "swatch reply"}), "out"];
  return [rateView("pace", "Rounds per second", history, ["rounds"], format.rate),
    rateView("bytes", title, history, ["received", "sent"], format.byteRate)];
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

// The share of its last steps in which the worker waited for samples.
function inputCell({step_waits: steps}) {
  if (!(steps?.step_ns > 0)) return h("span", {title: "the worker does not say"}, "–");
  const share = (part) => format.share(part / steps.step_ns);
  return h("span", {title: `of a step: input ${share(steps.input_ns)}, exchange ${share(steps.exchange_ns)}, `
    + `compute ${share(steps.step_ns - steps.input_ns - steps.exchange_ns)}`}, share(steps.input_ns));
}

function membersView(job, server) {
  const late = new Map((job.timing?.workers ?? []).map((worker) => [worker.worker_index, worker]));
  const columns = [{title: "Worker"}, {title: "Host", wide: true}, {title: "Pid", n: true}, {title: "Transport", wide: true},
    {title: "Last in", n: true}, {title: "Late", n: true}, {title: "Input", n: true}, {title: "In", n: true}, {title: "Out", n: true}, {title: "Heard", n: true}];
  const rows = workersOf(job).map((member) => {
    const worker = late.get(member.worker_index);
    return {key: String(member.worker_index), cells: [
      String(member.worker_index), member.host, String(member.process_id),
      h("span", {title: member.transport_reason}, transportOf(member, server) || "–",
        member.transport_reason && h("span", {class: "dim reason"}, member.transport_reason)),
      worker ? format.share(worker.last_share) : "–", worker ? format.time(worker.late_seconds) : "–", inputCell(member),
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
  const columns = [{title: "Rack", wide: true}, {title: "Workers", n: true}, {title: "Sums up", n: true}, {title: "Replies down", n: true},
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

// Why a job has failed, what to do, and what it can be restored from.
function failureView(job, records) {
  const {name} = job.spec;
  const newest = records?.snapshots.find((file) => file.job === name && file.tenant === job.tenant);
  return h("div", {class: "failure", role: "note", "data-key": "reason"},
    h("p", {}, h("b", {}, "It failed. "), job.reason && prose(job.reason)),
    job.cure && h("p", {}, h("b", {}, "Cure. "), prose(job.cure)),
    newest && h("p", {}, h("b", {}, "Newest snapshot. "), h("code", {}, newest.file), `, of round ${format.count(newest.round)}.`));
}

function reasonView(job, records) {
  if (job.state === "failed") return failureView(job, records);
  return job.reason && h("p", {class: "note", "data-key": "reason"}, job.reason);
}

export function jobView(job, state, rates, records) {
  const {spec} = job;
  const plan = state.plans.find((entry) => entry.job_id === job.job_id);
  const pace = rates.jobs.get(job.job_id);
  return [
    h("h2", {id: "job-title"}, `Job ${spec.name} `, stateCell(job),
      h("span", {class: "dim"}, ` ${spec.rule}, ${spec.wire_type}, ${spec.order} order, chunks of ${format.bytes(spec.chunk_bytes)}`)),
    reasonView(job, records),
    skippedView(job),
    snapshotsView(job),
    quorumView(job),
    h("div", {class: "columns", "data-key": String(job.job_id)},
      h("div", {}, roundView(job), membersView(job, state.server), racksView(job, pace)),
      h("div", {}, paceView(pace), planView(plan))),
  ];
}
