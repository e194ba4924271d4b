import { execFile, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { watched } from "@keelson/client/testing";
import { Sandbox, SandboxPool } from "@keelson/sandboxes";
import { expect, it } from "vitest";
import { inheritedDescriptor } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { programsOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const program = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));
const example = fileURLToPath(new URL("../../../../examples/sandboxes/hello.yaml", import.meta.url));
const run = promisify(execFile);

/** Runs `keelson sandbox ...` against a `keelson up`. Resolves to its output and exit status. */
async function sandboxCommand(
  keelson: TestKeelson,
  words: readonly string[],
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const endpoint = keelson.process.output().match(/fast path \(gRPC\) on http:\/\/(\S+),/)?.[1] ?? "";
  const env = {
    ...process.env,
    KEELSON_SANDBOX_ENDPOINT: endpoint,
    KEELSON_SANDBOX_TOKEN_FILE: join(keelson.dataDir, "sandboxes", "fastpath-token"),
  };
  try {
    return { code: 0, ...(await run(process.execPath, [program, "sandbox", ...words], { env })) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

const only = ["--only", "apiserver,cluster,sandboxes"];

it("sandboxes and their agents survive kill -9 of keelson up without duplicates, and nothing is left behind", async () => {
  using folder = temporaryFolder();
  let keelson = await startTestKeelson(folder.path, ...only);
  try {
    await keelson.kubectl("apply", "-f", example);
    let client = await keelson.client();
    await watched(client, Sandbox, "counter", (each) => each?.status?.phase === "Running");
    expect((await sandboxCommand(keelson, ["run", "mine", "--image", "host", "--", "sleep", "7777"])).stdout).toMatch(
      /^Name: +mine\nID: /,
    );
    const before = await watched(client, Sandbox, "mine", (each) => each?.status?.phase === "Running");
    await client.close();
    keelson.process.child.kill("SIGKILL");
    await keelson.process.exited;

    keelson = await startTestKeelson(folder.path, ...only);
    client = await keelson.client();
    await watched(client, SandboxPool, "default-pool", (each) => each?.status?.agents?.every(({ ready }) => ready) === true);
    const after = await watched(client, Sandbox, "mine", (each) => each?.status?.phase === "Running");
    expect(after?.status?.sandboxID).toBe(before?.status?.sandboxID);
    expect(programsOf(folder.path, "sleep 7777").filter((command) => command.startsWith("sleep")).length).toBe(1);
    const done = await sandboxCommand(keelson, ["exec", "mine", "--", "sh", "-c", "echo in $((20 + 3)); exit 9"]);
    expect(done).toMatchObject({ code: 9, stdout: "in 23\n" });
    // `startTestKeelson` leaves it a descriptor of the machine's root.
    const descriptors = await sandboxCommand(keelson, ["exec", "mine", "--", "sh", "-c", "ls /proc/[0-9]*/fd"]);
    expect(descriptors.stdout.split(/\s+/)).not.toContain(String(inheritedDescriptor));
    expect(JSON.parse((await sandboxCommand(keelson, ["get", "mine", "-o", "json"])).stdout)).toMatchObject({
      sandboxName: "mine",
      phase: "Running",
    });

    await keelson.kubectl("delete", "sandboxes", "--all");
    await keelson.kubectl("delete", "sandboxpools", "--all");
    await keelson.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=40s");
    expect(programsOf(folder.path, "sleep 7777").filter((command) => command.startsWith("sleep")).length).toBe(0);
    await expect.poll(() => programsOf(folder.path, "agent-program.js")).toEqual([]);
    await client.close();
  } finally {
    await keelson[Symbol.asyncDispose]();
  }
}, 120_000);

it("exec -it connects a shell to the caller's terminal and returns its exit code", async () => {
  using folder = temporaryFolder();
  await using keelson = await startTestKeelson(folder.path, ...only);
  await keelson.kubectl("apply", "-f", example);
  const client = await keelson.client();
  await watched(client, Sandbox, "counter", (each) => each?.status?.phase === "Running");
  await client.close();
  const endpoint = keelson.process.output().match(/fast path \(gRPC\) on http:\/\/(\S+),/)?.[1] ?? "";
  const token = join(keelson.dataDir, "sandboxes", "fastpath-token");
  const words = [process.execPath, program, "sandbox", "exec", "--endpoint", endpoint, "--token-file", token, "-it", "counter"];
  const line = `stty rows 33 cols 99; ${words.join(" ")} -- bash --norc -i`;
  const child = spawn("script", ["--quiet", "--return", "--flush", "--command", line, "/dev/null"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    // The prompt shows that the shell reads input.
    if (!text.includes("# ") && (text + chunk).includes("# ")) child.stdin.write("stty size; exit 9\r");
    text += chunk;
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect(text.replaceAll("\r", "")).toMatch(/^33 99$/m);
  expect(code).toBe(9);
  // Sandboxes and agents outlive keelson up by design, so the test ends them.
  await keelson.kubectl("delete", "sandboxes", "--all");
  await keelson.kubectl("delete", "sandboxpools", "--all");
  await keelson.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=40s");
}, 120_000);
