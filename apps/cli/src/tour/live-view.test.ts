import { expect, test } from "vitest";
import { type Row, renderRows } from "./live-view.ts";

const row = (over: Partial<Row>): Row => ({
  key: "k",
  depth: 0,
  kind: "Job",
  name: "hello",
  state: "running",
  note: "",
  mood: "running",
  ...over,
});

test("aligns columns and indents parts below their workload", () => {
  const rows = [row({}), row({ depth: 1, kind: "TaskGroup", name: "greet", state: "completed", note: "3/3" })];
  expect(renderRows(rows, 1_234, { width: 80, colour: false })).toEqual([
    "KIND       NAME     STATE      1.2 s",
    "Job        hello    running",
    "TaskGroup    greet  completed  3/3",
  ]);
});

test("truncates lines at the width of the terminal", () => {
  const lines = renderRows([row({ note: "x".repeat(200) })], 0, { width: 40, colour: false });
  expect(lines.every((line) => line.length <= 40)).toBe(true);
});
