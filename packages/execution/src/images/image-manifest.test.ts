import { expect, test } from "vitest";
import { architecture, chainIds, chooseManifest, hexOf, parseDescriptor, parseImageConfig } from "./image-manifest.ts";

test("rejects a digest that could escape as a file name", () => {
  for (const digest of [
    "sha256:../../etc/passwd",
    "sha256:",
    "md5:00",
    `sha256:${"A".repeat(64)}`,
    `sha256:${"a".repeat(64)}/..`,
  ])
    expect(() => hexOf(digest)).toThrow("not a valid sha256 digest");
  expect(() => parseDescriptor({ digest: `sha256:${"a".repeat(64)}`, size: -1 }, "layer 3")).toThrow(/layer 3/);
});

test("chooses the manifest for this machine's architecture", () => {
  const a = `sha256:${"a".repeat(64)}`;
  const b = `sha256:${"b".repeat(64)}`;
  const other = { digest: a, size: 1, platform: { os: "linux", architecture: "other" } };
  const mine = { digest: b, size: 1, platform: { os: "linux", architecture } };
  expect(chooseManifest([other, mine])?.digest).toBe(b);
  expect(chooseManifest([{ digest: a, size: 1 }])?.digest).toBe(a);
  expect(chooseManifest([other])).toBeUndefined();
});

test("computes the chain id of one layer as its own id, and of two as the hash of both", () => {
  expect(chainIds(["sha256:a"])).toEqual(["sha256:a"]);
  // printf 'sha256:a sha256:b' | sha256sum
  expect(chainIds(["sha256:a", "sha256:b"]).at(-1)).toBe(
    "sha256:970a948bffa8de94d6e22d747ba8c95030e6e546909f98f54e99a13005e173a8",
  );
});

test("reads an image's settings and ignores invalid ones", () => {
  const config = {
    config: { Env: ["A=b=c", "broken"], Cmd: ["/bin/sh"], User: "daemon", WorkingDir: "relative" },
    rootfs: { diff_ids: ["sha256:a"] },
  };
  expect(parseImageConfig(config)).toEqual({
    diffIds: ["sha256:a"],
    entrypoint: [],
    command: ["/bin/sh"],
    env: { A: "b=c" },
    user: "daemon",
  });
});
