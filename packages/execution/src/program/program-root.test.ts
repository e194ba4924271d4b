import { expect, test } from "vitest";
import { isBubblewrapRoot } from "./program-root.ts";

const machine = "27 1 254:0 / / rw - ext4 /dev/vda rw";
const base = (point: string): string => `64 27 0:40 / ${point} rw - tmpfs tmpfs rw`;
const newRoot = (point: string): string => `65 64 0:40 /newroot ${point} rw - tmpfs tmpfs rw`;
const files = (folder: string): string => `66 65 254:0 /usr ${folder}/usr ro - ext4 /dev/vda rw`;
const oldRoot = "27 64 254:0 / /oldroot rw - ext4 /dev/vda rw";
const volumes = [
  "70 65 0:42 / /newroot rw - tmpfs tmpfs rw",
  "71 65 254:0 /images/1/oldroot /oldroot ro - ext4 /dev/vda rw",
  "72 71 254:0 /volumes/1 /oldroot/data rw - ext4 /dev/vda rw",
];

/** The mounts after each step, the last of which enters the root. */
const steps = [
  [machine],
  [machine, base("/tmp"), newRoot("/tmp/newroot")],
  [oldRoot, base("/"), newRoot("/newroot")],
  [oldRoot, base("/"), newRoot("/newroot"), files("/newroot")],
  [base("/"), newRoot("/newroot"), files("/newroot")],
  [newRoot("/"), base("/"), files("")],
  [base("/"), newRoot("/"), files("")],
];

test("bubblewrap has its root after its last step only", () => {
  expect(steps.map((lines) => isBubblewrapRoot(lines.join("\n"), machine))).toEqual(steps.map(() => false));
  expect(isBubblewrapRoot([newRoot("/"), files("")].join("\n"), machine)).toBe(true);
  expect(isBubblewrapRoot("", machine)).toBe(false);
});

test("bubblewrap has its root if the program has mounts with the names that bubblewrap uses", () => {
  expect(isBubblewrapRoot([newRoot("/"), files(""), ...volumes].join("\n"), machine)).toBe(true);
});

test("a writable root is an overlay or its own directory", () => {
  const overlay = "80 65 0:67 / / rw - overlay overlay rw";
  const folder = "80 65 254:0 /images/1 / rw - ext4 /dev/vda rw";
  expect(isBubblewrapRoot(folder, machine)).toBe(true);
  expect(isBubblewrapRoot([folder, base("/")].join("\n"), machine)).toBe(false);
  expect(isBubblewrapRoot(overlay, machine)).toBe(true);
  expect(isBubblewrapRoot([overlay, base("/")].join("\n"), machine)).toBe(false);
  expect(isBubblewrapRoot(overlay, overlay)).toBe(false);
});

test("bubblewrap does not have its root while it has that of a surrounding bubblewrap", () => {
  const outer = "40 1 0:33 /newroot / rw - tmpfs tmpfs rw";
  expect(isBubblewrapRoot(outer, outer)).toBe(false);
  expect(isBubblewrapRoot(newRoot("/"), outer)).toBe(true);
});

test("a machine whose root is in memory is not a root of bubblewrap", () => {
  const live = "27 1 0:20 / / rw - tmpfs tmpfs rw";
  expect(isBubblewrapRoot(live, live)).toBe(false);
});
