import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
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

test("files begin with the kubelet's line, which differs on the host's network", () => {
  const { files } = create();
  const start = (path: string): string => readFileSync(path, "utf8").split("\n")[0] ?? "";
  const [pod, host] = [files.file("team", "1"), files.file("team", "2", [], true)];
  const aliased = files.file("team", "3", [{ ip: "127.0.0.9", hostnames: ["alias"] }], true);
  for (const update of [() => {}, () => files.update([], [])]) {
    update();
    expect(start(pod)).toBe("# Kubernetes-managed hosts file.");
    for (const path of [host, aliased]) expect(start(path)).toBe("# Kubernetes-managed hosts file (host network).");
    expect(readFileSync(aliased, "utf8")).toContain("# Entries added by HostAliases.\n127.0.0.9\talias\n");
  }
});

test("the file for the host's network is removed with the namespace's last Pod", () => {
  const { files } = create();
  const path = files.file("team", "2", [], true);
  files.forgetNamespace("team");
  expect(existsSync(path)).toBe(false);
});
