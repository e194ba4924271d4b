import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { watched } from "@keelson/client/testing";
import { createBusyboxImage, startLocalContainerd } from "@keelson/execution/testing";
import { Sandbox } from "@keelson/sandboxes";
import { expect, it } from "vitest";
import { startTestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const program = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));
const run = promisify(execFile);

/** Runs `keelson image ...`. Resolves to its output and exit status. */
async function image(dataDir: string, ...words: readonly string[]) {
  const containerd = words.includes("--containerd-address") ? [] : ["--containerd-address", "none"];
  const args = [program, "image", ...words, "--data-dir", dataDir, ...containerd];
  try {
    return { code: 0, ...(await run(process.execPath, args)) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

it("imports, lists and deletes images, with actionable errors", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "busybox.tar");
  await createBusyboxImage(file);
  expect(await image(folder.path, "import", file)).toMatchObject({ code: 2, stderr: expect.stringContaining("--name") });
  expect(await image(folder.path, "import", join(folder.path, "none"))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("file not found; create one with"),
  });
  expect(await image(folder.path, "import", program, "--name", "x")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/damaged/),
  });
  const imported = await image(folder.path, "import", file, "--name", "busybox", "--output", "json");
  expect(imported.stderr).toMatch(/unpacking layer 1 of 2\nunpacking layer 2 of 2/);
  const row: unknown = JSON.parse(imported.stdout);
  expect(row).toEqual({
    name: "docker.io/library/busybox:latest",
    digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    places: ["sandboxes"],
  });
  expect(JSON.parse((await image(folder.path, "list", "-o", "json")).stdout)).toEqual([row]);
  expect((await image(folder.path, "list")).stdout).toMatch(
    /^NAME.*\ndocker.io\/library\/busybox:latest +[0-9a-f]{12} +sandboxes\n$/,
  );
  expect((await image(folder.path, "delete", "busybox")).stdout).toBe("docker.io/library/busybox:latest deleted\n");
  expect(await image(folder.path, "delete", "busybox")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("keelson image list"),
  });
  expect(JSON.parse((await image(folder.path, "list", "--output", "json")).stdout)).toEqual([]);
});

it("imports an image into containerd as well", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "busybox.tar");
  await createBusyboxImage(file);
  const containerd = await startLocalContainerd(join(folder.path, "c"));
  const to = ["--containerd-address", containerd.socket, "--output", "json"];
  try {
    const imported = await image(folder.path, "import", file, "--name", "example.org/busybox:1", ...to);
    expect(imported.stderr).toMatch(/containerd: unpack layer 2 of 2/);
    const row: unknown = JSON.parse(imported.stdout);
    expect(row).toMatchObject({ places: ["sandboxes", "containerd"] });
    expect(JSON.parse((await image(folder.path, "list", ...to)).stdout)).toEqual([row]);
    expect(JSON.parse((await image(folder.path, "delete", "example.org/busybox:1", ...to)).stdout)).toMatchObject({
      places: ["sandboxes", "containerd"],
    });
    expect((await image(folder.path, "list", ...to)).stdout).toBe("[]\n");
  } finally {
    await containerd.stop();
  }
  expect(await image(folder.path, "list", ...to)).toMatchObject({ code: 1, stderr: expect.stringContaining("containerd") });
});

it("starts a sandbox from an image that was imported while keelson up runs", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "busybox.tar");
  await createBusyboxImage(file);
  await using keelson = await startTestKeelson(folder.path, "--only", "apiserver,cluster,sandboxes");
  expect(await image(keelson.dataDir, "import", file, "--name", "busybox")).toMatchObject({ code: 0 });
  const client = await keelson.client();
  try {
    const example = fileURLToPath(new URL("../../../../examples/sandboxes/hello.yaml", import.meta.url));
    await keelson.kubectl("apply", "-f", example);
    const poolRef =
      (await watched(client, Sandbox, "counter", (each) => each?.status?.phase === "Running"))?.spec.poolRef ?? "";
    const spec = { image: "busybox", poolRef, command: ["/bin/busybox"], args: ["sleep", "7000"] };
    await client.create(Sandbox, { metadata: { name: "boxed", namespace: "default" }, spec });
    await watched(client, Sandbox, "boxed", (each) => each?.status?.phase === "Running");
    expect(await image(keelson.dataDir, "delete", "busybox")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("in use"),
    });
  } finally {
    await client.close();
  }
});
