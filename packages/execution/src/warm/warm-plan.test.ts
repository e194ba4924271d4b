import { expect, test } from "vitest";
import type { ProgramSpec, WarmPlan } from "../driver.ts";
import { fits, type SlotShape, shapesOf } from "./warm-plan.ts";

const template = {
  isolation: { network: "none", hasPrivateUser: true, hostname: "sandbox" },
  limits: { pids: 10, cpuMillis: 1000, memoryBytes: 1 << 20, diskBytes: 1 << 20 },
} as const;
const spec: ProgramSpec = { id: "a", command: ["true"], ...template };
const shell: SlotShape = { kind: "shell", template, roots: ["/images"] };
const plan: WarmPlan = { template, shells: 2, roots: ["/images"], perImage: 3, images: [undefined, "/images/a"] };

test("a shell fits any root below its directories, and any limits but the disk's", () => {
  const withRoot = (root: string): ProgramSpec => ({ ...spec, isolation: { ...template.isolation, root } });
  expect(fits(shell, spec)).toBe(true);
  expect(fits(shell, withRoot("/images/a/rootfs"))).toBe(true);
  expect(fits(shell, withRoot("/images-of-others/a"))).toBe(false);
  expect(fits(shell, { ...spec, limits: { ...template.limits, cpuMillis: 10, memoryBytes: 5, pids: 1 } })).toBe(true);
  expect(fits(shell, { ...spec, limits: { ...template.limits, diskBytes: 2 << 20 } })).toBe(false);
});

test("a slot does not fit a program with other isolation, nor one whose settings apply from the start of its shim", () => {
  for (const change of [
    { isolation: { ...template.isolation, networkNamespace: "/run/netns/x" } },
    { isolation: { ...template.isolation, binds: [{ source: "/a", target: "/b" }] } },
    { isolation: { ...template.isolation, hostname: "other" } },
    { isolation: { ...template.isolation, userScope: "shared" } },
    { input: "held" },
    { terminal: { columns: 1, rows: 1 } },
    { mergeOutput: true },
    { timeoutMs: 1 },
    { user: "nobody" },
  ] as const) {
    expect(fits(shell, { ...spec, ...change }), JSON.stringify(change)).toBe(false);
  }
});

test("a slot of an image fits this image only", () => {
  const image = shapesOf(plan, true)[1]?.shape;
  if (image === undefined) throw new Error("no slot of an image");
  expect(fits(image, { ...spec, isolation: { ...template.isolation, root: "/images/a" } })).toBe(true);
  expect(fits(image, { ...spec, isolation: { ...template.isolation, root: "/images/b" } })).toBe(false);
  expect(fits(image, spec)).toBe(false);
});

test("a plan has slots per image, or as many more shells where those are not supported", () => {
  const counts = (hasImageSlots: boolean): readonly (readonly [string, number])[] =>
    shapesOf(plan, hasImageSlots).map(({ shape, count }) => [shape.kind, count]);
  expect(counts(true)).toEqual([
    ["image", 3],
    ["image", 3],
    ["shell", 2],
  ]);
  expect(counts(false)).toEqual([["shell", 8]]);
  expect(shapesOf({ ...plan, shells: 0, perImage: 0 }, true)).toEqual([]);
});
