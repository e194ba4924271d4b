import { expect, it } from "vitest";
import { renderTable } from "./render-table.ts";

it("aligns columns and leaves no trailing space", () => {
  const rows = [
    ["NAME", "STATUS", "NOTE"],
    ["pi", "Completed", ""],
    ["a-long-name", "Failed", "why"],
  ];
  expect(renderTable(rows)).toBe(
    ["NAME         STATUS     NOTE", "pi           Completed", "a-long-name  Failed     why", ""].join("\n"),
  );
});

it("is empty without rows, and accepts short rows", () => {
  expect(renderTable([])).toBe("");
  expect(renderTable([["A", "B"], ["x"]])).toBe("A  B\nx\n");
});

it("replaces control characters, so that a text cannot control the terminal", () => {
  expect(
    renderTable([
      ["A", "B"],
      ["\u001b[2Jx\r\n", "\u009b1m\tü"],
    ]),
  ).toBe("A        B\n?[2Jx??  ?1m?ü\n");
});
