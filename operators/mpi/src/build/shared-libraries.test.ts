import { expect, it } from "vitest";
import { parseLibraries } from "./shared-libraries.ts";

it("reads the paths of libraries and of the loader", () => {
  const output = [
    "/usr/bin/orted:",
    "\tlinux-vdso.so.1 (0x00007ffd)",
    "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f01)",
    "\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)",
    "\tnot a dynamic executable",
  ];
  expect(parseLibraries(output.join("\n"))).toEqual(["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]);
});

it("names a library that is missing", () => {
  expect(() => parseLibraries("\tlibmpi.so.40 => not found\n")).toThrow("shared library libmpi.so.40 not found");
});
