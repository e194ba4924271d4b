import { expect, test } from "vitest";
import { defaultRobotPolicy } from "../policy/robot-policy.ts";
import { readArtifacts } from "./artifact.ts";

const sha256 = "ab".repeat(32);
const checksum = { checksum: `sha256:${sha256}` };
const policy = { ...defaultRobotPolicy.artifacts, sources: ["https://", "http://", "file:///srv/"] };
const read = (artifact: object) => readArtifacts([{ getterOptions: checksum, ...artifact }], policy);
const url = "https://h/dir/x.tgz";

test.each([
  [{ getterSource: url }, { url, path: "local", archive: "tar" }],
  [
    { getterSource: url, relativeDest: "./local/x/" },
    { url, path: "local/x", archive: "tar" },
  ],
  [
    { getterSource: "https://h/x.ZIP", getterMode: "dir" },
    { url: "https://h/x.ZIP", path: "local", archive: "zip" },
  ],
  [
    { getterSource: url, getterMode: "file" },
    { url, path: "local/x.tgz" },
  ],
  [
    { getterSource: url, getterMode: "file", relativeDest: "bin/run" },
    { url, path: "bin/run" },
  ],
  [
    { getterSource: url, getterMode: "file", relativeDest: "bin/" },
    { url, path: "bin/x.tgz" },
  ],
  [{ getterSource: "https://h/a%20b?v=2#top" }, { url: "https://h/a%20b?v=2", path: "local/a b" }],
  [{ getterSource: "/srv/map.bin" }, { url: "file:///srv/map.bin", path: "local/map.bin" }],
  [
    { getterSource: url, getterOptions: { ...checksum, archive: "false" } },
    { url, path: "local/x.tgz" },
  ],
  [
    { getterSource: `${url}?checksum=sha256:${sha256}`, getterOptions: {} },
    { url, path: "local", archive: "tar" },
  ],
])("%j becomes %j", (artifact, expected) => {
  expect(read(artifact)).toEqual([{ sha256, ...expected }]);
});

test.each([
  [{ getterSource: 5 }, "[0].getterSource"],
  [{ getterSource: "x" }, "[0].getterSource"],
  [{ getterSource: "git::https://h/x" }, 'getterSource: "git" is not supported; supported are https, http and file'],
  [{ getterSource: "s3://b/x" }, "is not supported"],
  [
    { getterSource: "/etc/shadow" },
    "file:///etc/shadow is not allowed; the robot's policy allows https://, http://, file:///srv/",
  ],
  [{ getterSource: "/srv/../etc/shadow" }, "is not allowed"],
  [{ getterSource: "https://user:secret@h/x" }, "is not allowed"],
  [{ getterSource: url, relativeDest: "../x" }, ".relativeDest"],
  [{ getterSource: url, relativeDest: "/etc" }, ".relativeDest"],
  [{ getterSource: url, relativeDest: "logs/stdout.log" }, "outside logs"],
  [{ getterSource: url, relativeDest: "a\0b" }, ".relativeDest"],
  [{ getterSource: "https://h/x.bin", getterMode: "dir" }, "dir requires an archive"],
  [{ getterSource: "https://h/..%2f..%2fx" }, "names no file"],
  [{ getterSource: "https://h/" }, "names no file"],
  [{ getterSource: url, getterMode: "auto" }, ".getterMode"],
  [{ getterSource: url, getterOptions: { sshkey: "x" } }, "getterOptions.sshkey is not supported"],
  [{ getterSource: url, getterOptions: { checksum: "md5:00" } }, "must be of the form sha256:"],
  [{ getterSource: url, getterOptions: {} }, "checksum is missing; the robot's policy requires"],
])("%j is rejected", (artifact, message) => {
  expect(read(artifact)).toContain("spec.artifacts[0]");
  expect(read(artifact)).toContain(message);
});

test("the secret of a URL is not in messages", () => {
  expect(read({ getterSource: "https://user:secret@h/x?token=secret" })).not.toContain("secret");
});

test("a policy can do without digests", () => {
  const lax = { ...policy, requireChecksum: false };
  expect(readArtifacts([{ getterSource: url }], lax)).toEqual([{ url, path: "local", archive: "tar" }]);
  expect(readArtifacts(undefined, lax)).toEqual([]);
  expect(readArtifacts({}, lax)).toContain("must be a list");
});
