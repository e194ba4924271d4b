import { renderTable } from "@keelson/operator";
import type { KeelsonStatus } from "./collect-status.ts";
import type { NamedWorkload } from "./named-workload.ts";
import type { WorkloadStatus } from "./workload.ts";

/** How many workloads, and how many problems of other objects, are listed. */
const maxLines = 20;

/** Renders a status as tables: components, kinds, workloads, and further objects that need attention. */
export function renderStatus({ components, kinds, workloads, problems }: KeelsonStatus): string {
  const parts = [
    renderTable([["COMPONENT", "STATE", "DETAIL"], ...components.map(({ name, state, detail }) => [name, state, detail])]),
  ];
  if (kinds.length > 0) {
    const rows = kinds.map(({ family, kind, total, states }) => [family, kind, String(total), statesText(states)]);
    parts.push(renderTable([["FAMILY", "KIND", "TOTAL", "STATES"], ...rows]));
  }
  parts.push(...bounded(["WORKLOAD", "STATE", "TIME", "WAITS FOR"], workloads.map(workloadRow)));
  const listed = new Set(workloads.map(nameText));
  const others = problems.filter((problem) => !listed.has(nameText(problem)));
  const rows = others.map((problem) => [nameText(problem), problem.state, problem.problem]);
  parts.push(...bounded(["NEEDS ATTENTION", "STATE", "REASON"], rows));
  return parts.join("\n");
}

/** Renders a workload, what it owns, and its events. */
export function renderWorkload({ workload, dependents, events }: NamedWorkload): string {
  const rows = dependents.map((dependent) => {
    const [name = "", ...rest] = workloadRow(dependent);
    return [`${"  ".repeat(dependent.depth)}${name}`, ...rest];
  });
  const parts = [renderTable([["WORKLOAD", "STATE", "TIME", "WAITS FOR"], workloadRow(workload), ...rows])];
  if (events.length > 0) {
    const lines = events.map(({ type, reason, object, message, seconds }) => [ageText(seconds), type, reason, object, message]);
    parts.push(renderTable([["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], ...lines]));
  }
  return parts.join("\n");
}

const workloadRow = (workload: WorkloadStatus): readonly string[] => [
  nameText(workload),
  workload.state === "" ? "without status" : workload.state,
  ageText(workload.seconds),
  workload.detail,
];

function bounded(header: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  if (rows.length === 0) return [];
  const rest = rows.length > maxLines ? `and ${rows.length - maxLines} more; see -o json\n` : "";
  return [`${renderTable([header, ...rows.slice(0, maxLines)])}${rest}`];
}

const nameText = ({ kind, namespace, name }: Pick<WorkloadStatus, "kind" | "namespace" | "name">): string =>
  `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;

/** A duration in its two largest units, as kubectl shows ages. */
function ageText(seconds: number): string {
  const [minutes, hours, days] = [60, 3_600, 86_400].map((size) => Math.floor(seconds / size));
  if (days) return hours && hours % 24 > 0 ? `${days}d${hours % 24}h` : `${days}d`;
  if (hours) return minutes && minutes % 60 > 0 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (minutes) return seconds % 60 > 0 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  return `${seconds}s`;
}

const statesText = (states: Readonly<Record<string, number>>): string =>
  Object.entries(states)
    .map(([state, count]) => `${count} ${state === "" ? "without status" : state}`)
    .join(", ");
