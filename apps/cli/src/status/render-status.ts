import { renderTable } from "@keelson/operator";
import type { KeelsonStatus } from "./collect-status.ts";

/** How many problems are listed. */
const maxProblems = 20;

/** Renders a status as tables: components, kinds, and the objects that need attention. */
export function renderStatus({ components, kinds, problems }: KeelsonStatus): string {
  const parts = [
    renderTable([["COMPONENT", "STATE", "DETAIL"], ...components.map(({ name, state, detail }) => [name, state, detail])]),
  ];
  if (kinds.length > 0) {
    const rows = kinds.map(({ family, kind, total, states }) => [family, kind, String(total), statesText(states)]);
    parts.push(renderTable([["FAMILY", "KIND", "TOTAL", "STATES"], ...rows]));
  }
  if (problems.length > 0) {
    const rows = problems
      .slice(0, maxProblems)
      .map(({ kind, namespace, name, state, problem }) => [
        `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`,
        state,
        problem,
      ]);
    const rest = problems.length > maxProblems ? `and ${problems.length - maxProblems} more; see -o json\n` : "";
    parts.push(`${renderTable([["NEEDS ATTENTION", "STATE", "REASON"], ...rows])}${rest}`);
  }
  return parts.join("\n");
}

const statesText = (states: Readonly<Record<string, number>>): string =>
  Object.entries(states)
    .map(([state, count]) => `${count} ${state === "" ? "without status" : state}`)
    .join(", ");
