// Ties the parts: what comes from the server goes to the views; the job in the address is shown.
import {update} from "./dom.js";
import * as format from "./format.js";
import {jobView} from "./job.js";
import {auditView, quotasView, snapshotsView} from "./records.js";
import {follow, saveToken} from "./state.js";
import {coresView, jobsView, restView, summaryView} from "./view.js";

const at = (id) => document.getElementById(id);
let latest = null;     // {state, rates}
let records = null;    // of the disk; null: not known yet
let latestTime = null;
let silentSince = null;

function setHidden(id, hidden) {
  if (at(id).hidden !== hidden) at(id).hidden = hidden;
}

function setText(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

// How the server answers: in words, with a mark and a colour of their own each.
function setLink(kind, text) {
  if (document.body.className !== kind) document.body.className = kind;
  setText("link", text);
}

// The one in the address; else the first that runs, else the last one.
function chosenJob(jobs) {
  const id = Number(location.hash.match(/^#job=(\d+)$/)?.[1]);
  return jobs.find((job) => job.job_id === id) ?? jobs.find((job) => job.state === "running") ?? jobs.at(-1);
}

function show() {
  if (latest === null) return;
  const {state, rates} = latest;
  const job = chosenJob(state.jobs);
  update(at("summary"), summaryView(state));
  update(at("cores"), coresView(state, rates));
  update(at("job-table"), jobsView(state, rates, job));
  setHidden("job", job === undefined);
  if (job !== undefined) update(at("job"), jobView(job, state, rates, records));
  update(at("rest-body"), restView(state));
  update(at("quotas-body"), quotasView(records));
  update(at("snapshots-body"), snapshotsView(records));
  setHidden("audit", !records?.sees_audit);
  update(at("audit-body"), auditView(records));
  document.title = `PHub ${location.host}`;
}

follow({
  onState(state, rates) {
    latest = {state, rates};
    latestTime = new Date();
    silentSince = null;
    setHidden("banner", true);
    setHidden("token-form", true);
    setLink("live", "Live, every second");
    show();
  },
  onRefused() {
    setHidden("token-form", false);
    setLink("refused", "Not allowed in yet");
    latest = null;
    records = null;
  },
  onRecords(fresh) {
    records = fresh;
    show();
  },
  onSilent() {
    silentSince ??= new Date();
    const seconds = (new Date() - silentSince) / 1000;
    setLink("stale", "No answer");
    setText("banner", `The server has not answered for ${format.span(seconds)}. ` + (latestTime
      ? `The figures are from ${latestTime.toLocaleTimeString()}. ` : "") + "It is asked again every second.");
    setHidden("banner", false);
  },
});

setText("host", location.host);
addEventListener("hashchange", show);
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  saveToken(at("token").value);
  at("token").value = "";
});
