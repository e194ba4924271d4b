import { expect, it } from "vitest";
import { renderTable } from "./render-table.ts";

it("aligns columns by their longest cell and leaves no space at a line's end", () => {
  const rows = [
    ["NAME", "STATUS", "NOTE"],
    ["pi", "Completed", ""],
    ["a-long-name", "Failed", "why"],
  ];
  expect(renderTable(rows)).toBe(
    ["NAME         STATUS     NOTE", "pi           Completed", "a-long-name  Failed     why", ""].join("\n"),
  );
});

it("is empty without rows, and takes rows that are short", () => {
  expect(renderTable([])).toBe("");
  expect(renderTable([["A", "B"], ["x"]])).toBe("A  B\nx\n");
});
