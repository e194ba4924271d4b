import { escape } from "./escape-html.ts";
import { formatSeconds } from "./format-seconds.ts";
import { loadFigure } from "./load-figure.ts";
import { roundsText } from "./markdown.ts";
import type { CaseReport, RoundsReport, TestReport } from "./report.ts";

/** Renders a report as one HTML file that needs no server and no script. The data is embedded as JSON. */
export function htmlReport(tests: readonly TestReport[]): string {
  const successes = tests.filter(({ isSuccess }) => isSuccess).length;
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    `<title>${successes} of ${tests.length} tests succeeded</title><style>${style}</style></head><body>`,
    `<h1>${successes} of ${tests.length} tests succeeded</h1>`,
    overview(tests),
    ...tests.map(section),
    // `<` is escaped, so that no text can end the element.
    `<script type="application/json" id="report">${JSON.stringify({ tests }).replaceAll("<", "\\u003c")}</script>`,
    "</body></html>\n",
  ].join("\n");
}

const style = `
:root{color-scheme:light dark;--pass:#1a7f37;--fail:#cf222e;--warn:#9a6700;--mute:#57606a;--line:#8885;--plus:#1a7f37;--minus:#cf222e}
@media(prefers-color-scheme:dark){:root{--mute:#9198a1;--plus:#3fb950;--minus:#ff7b72}}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
.time{white-space:nowrap}th{overflow-wrap:normal}
section{border:1px solid var(--line);border-radius:8px;padding:.5rem 1rem 1rem;margin:1.5rem 0}h2{margin:.4rem 0}
.badge{display:inline-block;border-radius:1rem;padding:0 .6rem;color:#fff;background:var(--mute);font-size:.85rem;white-space:nowrap}
.passed{background:var(--pass)}.failed,.timeout{background:var(--fail)}.error,.flaky,.inconclusive{background:var(--warn)}.skipped{background:#6e7781}
pre{overflow:auto;background:#8881;border-radius:6px;padding:.6rem;white-space:pre-wrap}.diff-minus{color:var(--minus)}.diff-plus{color:var(--plus)}
.track{position:relative;height:1.1rem;background:#8882;border-radius:3px;min-width:16rem}.bar{position:absolute;top:0;bottom:0;border-radius:3px;min-width:3px}
svg{max-width:100%;height:auto}figure{margin:1rem 0}figcaption{color:var(--mute);font-size:.85rem}summary{cursor:pointer;margin:1rem 0 .4rem}
@media(max-width:44rem){.overview thead{display:none}.overview tr{display:flex;flex-wrap:wrap;gap:.2rem .8rem;padding:.5rem 0;border-bottom:1px solid var(--line)}
.overview td{border:0;padding:0}.overview td:empty{display:none}.message{flex-basis:100%}td,th{padding:.3rem}.track{min-width:4rem}}`;

function overview(tests: readonly TestReport[]): string {
  const rows = tests.map(
    (test, index) =>
      `<tr><td><a href="#test-${index}">${escape(test.name)}</a></td><td>${verdictBadge(test)}</td><td>${escape(roundsText(test))}</td>` +
      `<td class="time">${formatSeconds(test.seconds)} s</td><td class="message">${escape(test.message)}</td></tr>`,
  );
  return `<table class="overview"><thead><tr><th>Test</th><th>Verdict</th><th>Rounds</th><th>Time</th><th>Message</th></tr></thead><tbody>${rows.join("\n")}</tbody></table>`;
}

function verdictBadge({ verdict, isSuccess }: TestReport): string {
  return `<span class="badge ${verdict}">${verdict}</span>${isSuccess && verdict === "flaky" ? " quarantined" : ""}`;
}

function section(test: TestReport, index: number): string {
  const { kind, name, cases, rounds, load, output = [], message, failureBundle } = test;
  return [
    `<section id="test-${index}"><h2>${escape(name)} ${verdictBadge(test)}</h2><p>${escape(kind)}. ${escape(message)}</p>`,
    ...(rounds === undefined || rounds.completed < 2 ? [] : [roundsFigure(rounds)]),
    ...(load === undefined ? [] : [loadFigure(load)]),
    timeline(cases),
    ...cases.flatMap(caseDetails),
    ...(failureBundle === undefined
      ? []
      : [
          `<p>Objects, events and logs of the failed round: <code>keelson test report ${escape(name)} --bundles DIR</code>, or ConfigMap <code>${escape(failureBundle)}</code></p>`,
        ]),
    ...output.map(
      (each) =>
        `<details><summary>Output of ${escape(each.pod)}/${escape(each.container)}</summary><pre>${escape(each.tail ?? each.error ?? "")}</pre></details>`,
    ),
    "</section>",
  ].join("\n");
}

/** One row per case; the bars show when it ran. Cases without a start are placed one after another; those without a time have no bar. */
function timeline(cases: readonly CaseReport[]): string {
  let end = 0;
  const placed = cases.map((each) => {
    const start = each.startSeconds ?? end;
    end = Math.max(end, start + each.seconds);
    return { ...each, start, isTimed: each.startSeconds !== undefined || each.seconds > 0 };
  });
  const scale = end > 0 ? 100 / end : 0;
  const rows = placed.map(
    ({ name, seconds, outcome, start, isTimed }) =>
      `<tr><td>${escape(name)}</td><td><span class="badge ${outcome}">${outcome}</span></td>` +
      (isTimed
        ? `<td class="time">${formatSeconds(seconds)} s</td><td><div class="track"><div class="bar ${outcome}" style="left:${(start * scale).toFixed(2)}%;width:${(seconds * scale).toFixed(2)}%"></div></div></td></tr>`
        : "<td></td><td></td></tr>"),
  );
  return `<table><tbody>${rows.join("\n")}</tbody></table>`;
}

function caseDetails({ name, outcome, message = "", details = "" }: CaseReport): readonly string[] {
  if (message === "" && details === "") return [];
  const lines = (details || message).split("\n").map((line) => {
    const tone = line.startsWith("- ") ? "diff-minus" : line.startsWith("+ ") ? "diff-plus" : "";
    return tone === "" ? escape(line) : `<span class="${tone}">${escape(line)}</span>`;
  });
  return [`<h3>${escape(name)}: ${outcome}</h3><p>${escape(message)}</p><pre>${lines.join("\n")}</pre>`];
}

/** Durations of all rounds as a histogram, with the percentiles. */
function roundsFigure({
  durations = [],
  minSeconds,
  meanSeconds,
  p50Seconds,
  p95Seconds,
  maxSeconds,
  passRate,
}: RoundsReport): string {
  const [width, height] = [640, 140];
  const top = Math.max(...durations.map(({ count }) => count), 1);
  const step = width / Math.max(durations.length, 1);
  const bars = durations.map(({ count, seconds }, index) => {
    const size = (count / top) * (height - 20);
    return `<rect x="${(index * step).toFixed(1)}" y="${(height - size).toFixed(1)}" width="${Math.max(step - 1, 1).toFixed(1)}" height="${size.toFixed(1)}" fill="#0969da"><title>${count} rounds of about ${seconds} s</title></rect>`;
  });
  const figures = [
    `min ${formatSeconds(minSeconds)} s`,
    `mean ${formatSeconds(meanSeconds)} s`,
    ...(p50Seconds === undefined ? [] : [`p50 ${formatSeconds(p50Seconds)} s`]),
    ...(p95Seconds === undefined ? [] : [`p95 ${formatSeconds(p95Seconds)} s`]),
    `max ${formatSeconds(maxSeconds)} s`,
    ...(passRate === undefined
      ? []
      : [`pass rate ${passRate.percent} % (95 % interval ${passRate.lowPercent} to ${passRate.highPercent} %)`]),
  ];
  return `<figure><svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="Durations of the rounds">${bars.join("")}</svg><figcaption>Durations of all rounds: ${figures.join(", ")}</figcaption></figure>`;
}
