import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { HostsFiles } from "./hosts-files.ts";

function create(): { readonly files: HostsFiles; readonly dir: string } {
  const dir = mkdtempSync(join(tmpdir(), "keelson-hosts-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return { files: new HostsFiles(dir), dir };
}

test("the file of a namespace is removed with its last Pod, and created again for the next one", () => {
  const { files } = create();
  const path = files.file("team");
  files.file("other");
  files.forgetNamespace("team");
  expect(existsSync(path)).toBe(false);
  expect(existsSync(files.file("team"))).toBe(true);
});

test("files that an earlier kubelet left behind are removed unless their namespace has Pods", () => {
  const { files, dir } = create();
  const aliases = [{ ip: "127.0.0.9", hostnames: ["alias"] }];
  for (const namespace of ["team", "used"]) {
    files.file(namespace);
    files.file(namespace, "uid", aliases);
  }
  new HostsFiles(dir).sweep((namespace) => namespace === "used");
  expect(readdirSync(dir).toSorted()).toEqual(["used", "used.uid"]);
});
