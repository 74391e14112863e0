#include "bench/report/style.h"

namespace phub::bench::report {

std::string_view page_style() {
  return R"css(:root {
  color-scheme: light dark;
  --ground: #f5f6f8; --surface: #fff; --line: #dde1e6; --text: #1c2127; --dim: #5b6570;
  --accent: #1f5f99; --good: #1d6b45;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171b; --surface: #1c2026; --line: #2f353d; --text: #e4e8ec; --dim: #9aa5b1;
    --accent: #7db7ea; --good: #79c9a0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 0 20px 32px; max-width: 1400px; background: var(--ground); color: var(--text);
  font: 14px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums;
  overflow-wrap: break-word;
}
h1, h2, h3, p, dl, dd, ol, figure { margin: 0; padding: 0; }
h1 { font-size: 18px; font-weight: 650; }
h2 { font-size: 15px; font-weight: 650; margin-bottom: 10px; }
h3 { font-size: 13px; font-weight: 650; }
a { color: var(--accent); }
dt { white-space: nowrap; }
.dim, dt, figcaption, footer { color: var(--dim); }
h2 .dim { font-size: 13px; font-weight: 400; }
.note { color: var(--dim); }
.mark {
  display: inline-block; width: 11px; height: 11px; margin-right: 8px; border-radius: 2px;
  background: linear-gradient(90deg, #3a7ab8 60%, #db7a2c 60%);
}
.basis {
  font-size: 12px; font-weight: 500; color: var(--good); border: 1px solid; border-radius: 4px;
  padding: 0 6px; margin: 0 4px; white-space: nowrap;
}
header { padding: 16px 0 10px; }
header dl { margin-top: 6px; }
dl { display: flex; flex-wrap: wrap; gap: 4px 28px; }
dl div { display: flex; gap: 6px; min-width: 0; }
dd { font-weight: 600; min-width: 0; }
nav ol { display: flex; flex-wrap: wrap; gap: 2px 24px; list-style: none; margin-bottom: 14px; }
main { display: grid; gap: 14px; grid-template-columns: minmax(0, 1fr); }
section {
  background: var(--surface); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
}
footer { padding-top: 14px; font-size: 12px; }
.body { display: flex; flex-wrap: wrap; gap: 14px 40px; align-items: flex-start; }
.body > * { flex: 0 1 100%; min-width: 0; }
.body > .wide { flex: 0 1 auto; }
.body > .long { flex: 0 1 100%; }
.body > .figures { flex: 1 1 400px; }
.wide { overflow-x: auto; max-width: 100%; }
summary { cursor: pointer; color: var(--accent); padding: 4px 0; }
table { border-collapse: collapse; }
th, td { padding: 5px 10px; text-align: left; vertical-align: baseline; border-bottom: 1px solid var(--line); }
thead th { font-weight: 500; font-size: 12px; color: var(--dim); white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
td.n { white-space: nowrap; }
.n { text-align: right; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 400px)); gap: 20px 36px; align-items: start; }
figcaption { font-size: 13px; margin-bottom: 8px; }
figure > svg { display: block; width: 100%; max-width: 400px; height: auto; }
img { display: block; max-width: 1200px; border-radius: 4px; }
@media (max-width: 720px) {
  body { padding: 0 10px 20px; }
  section { padding: 12px; }
  nav ol { display: block; }
  nav li { padding: 3px 0; }
  dl { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; }
  .body > .wide { flex: 0 1 100%; overflow-x: visible; }
  figure > .wide { overflow-x: auto; }
  .body > .figures { flex: 1 1 100%; }
  tbody tr { padding: 6px 0; border-bottom: 1px solid var(--line); display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 16px; }
  tbody tr:last-child { border-bottom: 0; }
  td, td.n { padding: 1px 0; border: 0; display: flex; justify-content: space-between; gap: 8px; text-align: right; white-space: normal; }
  td::before { content: attr(data-label); color: var(--dim); text-align: left; white-space: nowrap; flex: none; }
  td.w { grid-column: 1 / -1; }
  td.e { display: none; }
  td span { min-width: 0; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; justify-content: flex-start; }
}
)css";
}

}  // namespace phub::bench::report
