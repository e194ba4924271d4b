import { isJsonObject } from "@keelson/api-machinery";
import type { StepStatus } from "../api/step-status.ts";

/** Result of a step's program. */
export type ToolResult = NonNullable<StepStatus["result"]>;

/** What a tool reports: a result, or why there is none. `reason`: a reason of a failed step. */
export type ToolReport =
  | { readonly kind: "result"; readonly result: ToolResult }
  | { readonly kind: "error"; readonly reason: string; readonly message: string };

/** The line that a tool prints at its end. */
export const reportLine = (report: ToolReport): string => JSON.stringify({ keelsonTool: report });

/** The report in the log of a tool; undefined if it ended without one. */
export function parseReport(log: string): ToolReport | undefined {
  const line = log.trimEnd().split("\n").at(-1) ?? "";
  try {
    const value: unknown = JSON.parse(line);
    const report = isJsonObject(value) ? value["keelsonTool"] : undefined;
    return isJsonObject(report) ? (report as unknown as ToolReport) : undefined;
  } catch {
    return undefined;
  }
}
