import { expect, it } from "vitest";
import { chownFiles, shiftId } from "./volume-owner.ts";

const range = (first: number) => ({ first, size: 65_536 });

it("keeps an owner within the range, and gives files without a known owner to the first id", () => {
  expect(shiftId(1_000_007, [range(1_000_000)], range(2_000_000))).toBe(2_000_007);
  expect(shiftId(2_000_007, [range(1_000_000)], range(2_000_000))).toBe(2_000_007);
  expect(shiftId(0, [range(1_000_000)], range(2_000_000))).toBe(2_000_000);
  // Another driver, whose sandboxes have one id.
  expect(shiftId(1_000_007, [range(1_000_000)], { first: 5, size: 1 })).toBe(5);
});

it("changes each owner once, and gives all files to the first id if there are too many owners", async () => {
  const commands: string[] = [];
  const tools = (listing: string) => ({
    run: (program: string, args: readonly string[]): Promise<string> => {
      if (program !== "find") commands.push([program, ...args].join(" "));
      return Promise.resolve(program === "find" ? listing : "");
    },
  });
  await chownFiles(
    tools("1000000 1000000\n1000007 1000008\n1000000 1000000\n2000001 2000001\n"),
    "/volume",
    [range(1_000_000)],
    range(2_000_000),
  );
  expect(commands.splice(0)).toEqual([
    "chown -hR -P --from=1000000:1000000 2000000:2000000 /volume",
    "chown -hR -P --from=1000007:1000008 2000007:2000008 /volume",
  ]);
  const many = Array.from({ length: 100 }, (_, index) => `${1_000_000 + index} 1000000\n`).join("");
  await chownFiles(tools(many), "/volume", [range(1_000_000)], range(2_000_000));
  expect(commands).toEqual(["chown -hR -P 2000000:2000000 /volume"]);
});
