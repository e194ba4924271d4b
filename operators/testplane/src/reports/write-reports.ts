import { writeFile } from "node:fs/promises";
import type { FlagDefinition, FlagValues } from "@keelson/operator";
import { htmlReport } from "./html.ts";
import { junitReport } from "./junit.ts";
import { markdownReport } from "./markdown.ts";
import { prometheusReport } from "./prometheus.ts";
import type { TestReport } from "./report.ts";

type Render = (tests: readonly TestReport[]) => string;

/** Renders a report as JSON. */
export const jsonReport: Render = (tests) => `${JSON.stringify({ tests }, undefined, 2)}\n`;

const formats: Readonly<Record<string, { readonly description: string; readonly render: Render }>> = {
  junit: { description: "write a JUnit report", render: junitReport },
  json: { description: "write a JSON report", render: jsonReport },
  html: { description: "write a self-contained HTML report", render: htmlReport },
  prometheus: { description: "write metrics in Prometheus' text format", render: prometheusReport },
  markdown: { description: "write a Markdown report", render: markdownReport },
};

/** Flags that name the files of reports. */
export const reportFlags: readonly FlagDefinition[] = Object.entries(formats).map(([name, { description }]) => ({
  name,
  value: "FILE",
  description,
}));

/** Writes the reports that the flags request. Returns how many. */
export async function writeReports(flags: FlagValues, reports: readonly TestReport[]): Promise<number> {
  const files = Object.entries(formats).flatMap(([name, { render }]) => {
    const file = flags[name];
    return typeof file === "string" ? [{ file, text: render(reports) }] : [];
  });
  await Promise.all(files.map(({ file, text }) => writeFile(file, text)));
  return files.length;
}
