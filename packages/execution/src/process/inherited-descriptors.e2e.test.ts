import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { expect, test } from "vitest";

test("a program that closes inherited descriptors does not pass them on, and can still start programs", () => {
  const root = openSync("/", "r");
  const script = `
    import { closeInheritedDescriptors } from ${JSON.stringify(new URL("../../dist/process/inherited-descriptors.js", import.meta.url).href)};
    import { readdirSync } from "node:fs";
    import { spawnSync } from "node:child_process";
    if (process.argv[1] === "close") closeInheritedDescriptors();
    process.stdout.write(spawnSync("readlink", ["/proc/self/fd/40"], { encoding: "utf8" }).stdout);
    process.stdout.write("done");
  `;
  const stdio = Array.from({ length: 40 }, (_, index) => (index === 1 ? ("pipe" as const) : ("ignore" as const)));
  const outputs = ["keep", "close"].map(
    (mode) =>
      spawnSync(process.execPath, ["--input-type=module", "-e", script, mode], { stdio: [...stdio, root], encoding: "utf8" })
        .stdout,
  );
  closeSync(root);
  expect(outputs).toEqual(["/\ndone", "done"]);
});
